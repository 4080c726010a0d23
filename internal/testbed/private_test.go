//go:build linux || darwin || freebsd

package testbed

import (
	"context"
	"database/sql"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A server that starts sweeps the folder of temporary tables: in one that is shared, another's vanish while they are open.
func TestServersShareNoTemporaryFolder(t *testing.T) {
	eachKind(t, func(t *testing.T, kind kind) {
		if kind.name == KindPostgres {
			return // has its own in its data folder
		}
		s := kind.private(t)
		var tmp, data string
		if err := s.ask(t.Context(), "SELECT @@tmpdir, @@datadir", &tmp, &data); err != nil {
			t.Fatal(err)
		}
		if tmp != filepath.Dir(filepath.Clean(data)) {
			t.Errorf("%s is not the server's own, which is above %s", tmp, data)
		}
	})
}

// One server for all that ends or stops one: it takes the slowest a second to start.
func TestPrivateServer(t *testing.T) {
	eachKind(t, func(t *testing.T, kind kind) {
		s := kind.private(t)
		for _, c := range heldByAll[s.Kind] {
			c.check(t, s)
		}
		checkSignal(t, s)
		checkRestart(t, s)
	})
}

// checkSignal makes s hang and go on.
func checkSignal(t *testing.T, s *Server) {
	conn, end := session(t, s)
	defer end()
	s.Signal(t, syscall.SIGSTOP)
	answer := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(context.Background(), "SELECT 1")
		answer <- err
	}()
	select {
	case err := <-answer:
		t.Fatalf("a stopped server answered (%v)", err)
	case <-time.After(50 * time.Millisecond): // time is what is tested
	}
	s.Signal(t, syscall.SIGCONT)
	if err := <-answer; err != nil {
		t.Errorf("after SIGCONT: %v", err)
	}
}

// checkRestart leaves s stopped.
func checkRestart(t *testing.T, s *Server) {
	db := s.Outside(t)
	query(t, db, "SELECT 1")
	s.Kill9(t)
	checkGone(t, db)
	s.Restart(t)
	query(t, db, "SELECT 1")
	s.Restart(t) // it runs: this stops it fast
	query(t, db, "SELECT 1")
	s.Stop(t, "immediate")
	checkGone(t, db)
	if got := watch(func(t testing.TB) { s.Stop(t, "slowly") }); got.how != "fatal" {
		t.Errorf("an unknown stop mode: %+v", got)
	}
}

func checkGone(t *testing.T, db *sql.DB) {
	t.Helper()
	if err := db.PingContext(t.Context()); err == nil {
		t.Error("the server answers after its end")
	}
}
