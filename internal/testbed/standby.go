package testbed

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// StartStandby starts a streaming standby of s, which must be a PostgreSQL server of t's alone, and returns when it
// streams. It ends with t. Each conf is one setting, "key=value".
//
// s commits without waiting for it: see [Server.Synchronous]. The standby has s's databases: reach the one that
// [Server.NewDatabase] made on s by [Server.At].
func (s *Server) StartStandby(t testing.TB, conf ...string) *Server {
	t.Helper()
	standby, err := s.own(t).startStandby(conf)
	if err != nil {
		t.Fatalf("testbed: no standby: %v", err)
	}
	standby.private = true
	t.Cleanup(standby.program.remove)
	s.awaitTrue(t, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming' AND application_name = $1)`, standby.program.name)
	return standby
}

// Synchronous makes every later commit of s wait until its standby has applied it, if the session's synchronous_commit is
// "remote_apply", or has it, if that is "on". The test bed's own setting is off: start s with "synchronous_commit=on".
func (s *Server) Synchronous(t testing.TB) {
	t.Helper()
	s.own(t)
	for _, q := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if err := s.direct().exec(q); err != nil {
			t.Fatalf("testbed: %s: %v", q, err)
		}
	}
	s.awaitTrue(t, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')`)
}

// Promote makes a standby a primary, and returns when it is one. What it was a standby of goes on by itself: a test
// that wants a failover kills it first.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.own(t)
	s.awaitTrue(t, `SELECT pg_promote(true, 60)`)
	s.awaitTrue(t, `SELECT NOT pg_is_in_recovery()`)
}

// At returns the database of s at another server that has it, too: at s's standby.
func (s *Server) At(other *Server) *Server { return other.withDatabase(s.database) }

// startStandby makes a copy of a running server and runs it.
func (p *program) startStandby(conf []string) (*Server, error) {
	e := *p.engine
	e.fill = nil // not from a template
	copied, err := e.prepare(p.bin, conf)
	if err != nil {
		return nil, err
	}
	err = helper{p.bin, copied.dir, p.dog, e.user()}.run([]string{filepath.Join(filepath.Dir(p.bin), "pg_basebackup"),
		"-D", copied.data(), "-h", "127.0.0.1", "-p", fmt.Sprint(p.port), "-U", e.login.user,
		"--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"}, "")
	if err != nil {
		copied.remove()
		return nil, err
	}
	version, err := copied.runOnFreePort()
	if err != nil {
		copied.remove()
		return nil, err
	}
	s := copied.server()
	s.Version = version
	return s, nil
}

// awaitTrue waits until s answers true.
func (s *Server) awaitTrue(t testing.TB, query string, args ...any) {
	t.Helper()
	db := s.Outside(t)
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for ok := false; !ok; time.Sleep(5 * time.Millisecond) {
		if err := db.QueryRowContext(ctx, query, args...).Scan(&ok); err != nil {
			t.Fatalf("testbed: %s: %v", query, err)
		}
		if ok {
			return
		}
	}
}
