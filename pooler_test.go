package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

// A session lock taken through a pooler that shares server connections would stay there: every locker refuses it, every
// time, also under load, and leaves nothing behind, neither a lock nor a setting. Through a pooler in session mode it works.
func TestLockersThroughPoolers(t *testing.T) {
	for _, c := range []struct {
		mode, params string
		refused      bool
	}{
		{"transaction", "default_query_exec_mode=exec", true}, {"transaction", "", true},
		{"statement", "default_query_exec_mode=exec", true},
		{"session", "default_query_exec_mode=exec", false}, {"session", "", false},
	} {
		t.Run(c.mode+"/"+c.params, func(t *testing.T) {
			s := testbed.PgBouncer(t, c.mode).NewDatabase(t)
			underLoad(t, sql.OpenDB(onPgx.connector(t, s, "default_query_exec_mode=exec")), c.mode != "statement")
			for i := range times(5, 100) {
				p := newLockPool(t, onPgx, s, i%2 == 0, c.params)
				through(t, p, c.mode, c.refused)
				p.DB.Close()
			}
			s.AwaitFree(t, time.Second)
		})
	}
}

// through tries every way to a session lock.
func through(t *testing.T, p *lockPool, mode string, refused bool) {
	t.Helper()
	l := sqllock.NewPostgres(p.DB)
	conn, err := p.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key := testKey(t)
	for name, acquire := range map[string]func(context.Context, sqllock.Key) (*sqllock.Lock, error){
		"TryAcquire": l.TryAcquire, "Acquire": l.Acquire, "Shared": l.Shared().TryAcquire, "OnConn": l.OnConn(conn).TryAcquire,
	} {
		lock, err := acquire(t.Context(), key)
		switch {
		case refused && (!errors.Is(err, sqllock.ErrUnsupported) || !strings.Contains(err.Error(), mode+" mode") || !strings.Contains(err.Error(), "RunExclusive")):
			t.Fatalf("%s: %v", name, err)
		case !refused && err != nil:
			t.Fatalf("%s: %v", name, err)
		}
		if lock != nil {
			if err := lock.Release(); err != nil {
				t.Fatalf("%s: Release: %v", name, err)
			}
		}
	}
	if err := errors.Join(conn.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
}

// RunExclusive is for poolers in transaction mode; in statement mode there are no transactions.
func TestRunExclusiveThroughPoolers(t *testing.T) {
	for mode, refused := range map[string]bool{"transaction": false, "session": false, "statement": true} {
		p := newLockPool(t, onPgx, testbed.PgBouncer(t, mode).NewDatabase(t), true, "default_query_exec_mode=exec")
		ran, err := sqllock.RunExclusive(t.Context(), p.DB, testKey(t), func(*sql.Tx) error { return nil })
		if ran == refused || errors.Is(err, sqllock.ErrUnsupported) != refused {
			t.Errorf("%s mode: %v, %v", mode, ran, err)
		}
	}
}

// A refused locker leaves the pooler's server connections as they were.
func TestRefusalLeavesNoSetting(t *testing.T) {
	s := testbed.PgBouncer(t, "transaction").NewDatabase(t)
	p := newLockPool(t, onPgx, s, false, "default_query_exec_mode=exec")
	show := "SELECT current_setting('" + silenceSetting(testbed.Postgres(t)) + "')"
	before := value(t, p, show)
	l := p.locker(t)
	for range 3 {
		if _, err := l.TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrUnsupported) {
			t.Fatal(err)
		}
	}
	for range 5 {
		if now := value(t, p, show); now != before {
			t.Errorf("%s is %s, was %s", show, now, before)
		}
	}
}

// Where nothing is in between, the look costs nothing: one statement opens a pin.
func TestLookAtPoolerIsFree(t *testing.T) {
	s := testbed.Postgres(t).NewDatabase(t)
	proxy := testbed.NewProxy(t, s.Addr())
	p := newLockPool(t, onPgx, s.Via(proxy), false, "default_query_exec_mode=exec")
	p.SetMaxIdleConns(1)
	if err := p.Ping(); err != nil {
		t.Fatal(err)
	}
	before := proxy.Received()
	lock := mustTry(t, p.locker(t), testKey(t))
	first := proxy.Received() - before
	if n := value(t, s.Outside(t), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"); n != "1" {
		t.Errorf("%s sessions", n)
	}
	if first > 700 { // one answer, with the version's text
		t.Error(fmt.Sprint(first, " bytes came back"))
	}
	mustRelease(t, lock)
}
