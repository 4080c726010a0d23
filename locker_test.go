package sqllock_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/lockertest"
	"github.com/sqllock/sqllock/internal/testbed"
)

// wholeLocker is what *Postgres and *MySQL both are.
type wholeLocker interface {
	sqllock.Locker
	AcquireAll(ctx context.Context, keys ...sqllock.Key) ([]*sqllock.Lock, error)
	OnConn(conn *sql.Conn) sqllock.Locker
	Close() error
}

// lockPool is a pool for lockers, guarded or plain, and what looks at its server from outside.
type lockPool struct {
	*sql.DB
	stack   stack
	server  *testbed.Server
	reports *reports // the guard's; a test that expects some takes them
	guarded bool
	losing  bool // sessions are lost on purpose: SessionDied is no surprise
}

// newLockPool opens a pool at s. When t ends nothing may be left held, in use, or reported.
func newLockPool(t testing.TB, k stack, s *testbed.Server, guarded bool, params string) *lockPool {
	t.Helper()
	p := &lockPool{stack: k, server: s, reports: &reports{}, guarded: guarded}
	c := k.connector(t, s, params)
	if guarded {
		p.DB = sqllock.OpenDB(c, sqllock.WithReport(p.reports.add))
	} else {
		p.DB = sql.OpenDB(c)
	}
	t.Cleanup(func() {
		p.awaitInUse(t, 0)
		p.DB.Close()
		s.AwaitFree(t, 3*time.Second)
		for _, r := range p.reports.take() {
			if r.Kind != sqllock.SessionDied || !p.losing {
				t.Errorf("unexpected: %v", r)
			}
		}
	})
	return p
}

// locker returns a new locker, which is closed before the pool is looked at.
func (p *lockPool) locker(t testing.TB, opts ...sqllock.LockerOption) wholeLocker {
	var l wholeLocker = sqllock.NewMySQL(p.DB, opts...)
	if p.stack.postgres() {
		l = sqllock.NewPostgres(p.DB, opts...)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func (p *lockPool) awaitInUse(t testing.TB, n int) {
	t.Helper()
	await(t, 5*time.Second, func() error {
		if got := p.DB.Stats().InUse; got != n {
			return fmt.Errorf("%d connections in use, want %d", got, n)
		}
		return nil
	})
}

// endHolder ends the session that holds the key, and returns when it has gone.
func endHolder(t testing.TB, s *testbed.Server, key sqllock.Key) {
	t.Helper()
	db := s.Outside(t)
	defer db.Close()
	if s.Kind == testbed.KindPostgres {
		terminate(t, db, fmt.Sprint("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND (classid::int8 << 32 | objid::int8) = ", key.Int64(),
			" AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"))
		return
	}
	holder := func() (id sql.NullInt64) {
		if err := db.QueryRow("SELECT IS_USED_LOCK(?)", key.MySQLName()).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := holder()
	if _, err := db.Exec(fmt.Sprint("KILL ", id.Int64)); err != nil {
		t.Fatal(err)
	}
	await(t, 5*time.Second, func() error {
		if now := holder(); now == id && id.Valid {
			return fmt.Errorf("%d still holds it", id.Int64)
		}
		return nil
	})
}

// terminate ends the PostgreSQL sessions whose PIDs query lists, and returns when they have gone.
func terminate(t testing.TB, db *sql.DB, query string) {
	t.Helper()
	pids := value(t, db, "WITH l AS MATERIALIZED ("+query+") SELECT array_agg(pid) FROM l WHERE pg_terminate_backend(pid)")
	await(t, 5*time.Second, func() error {
		if n := value(t, db, "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1::int[])", pids); n != "0" {
			return fmt.Errorf("%s sessions of %s are left", n, pids)
		}
		return nil
	})
}

// onLockers runs f for guarded and plain pools of every driver.
func onLockers(t *testing.T, f func(t *testing.T, p *lockPool), stacks ...stack) {
	t.Helper()
	if len(stacks) == 0 {
		stacks = []stack{onPgx, onPQ, onMySQL, onMariaDB}
	}
	for _, k := range stacks {
		for _, guarded := range []bool{false, true} {
			name := k.name + "/plain"
			if guarded {
				name = k.name + "/guarded"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f(t, newLockPool(t, k, k.server(t).NewDatabase(t), guarded, ""))
			})
		}
	}
}

// Every locker does what its interface promises.
func TestLockersConform(t *testing.T) {
	for name, opts := range map[string][]sqllock.LockerOption{
		"shared pin": nil,
		"dedicated":  {sqllock.WithDedicatedConn()},
	} {
		t.Run(name, func(t *testing.T) {
			onLockers(t, func(t *testing.T, p *lockPool) {
				lockertest.Run(t, p.site(opts...))
			})
		})
	}
}

func (p *lockPool) site(opts ...sqllock.LockerOption) lockertest.Site {
	p.losing = true
	if p.stack.name == onPQ.name { // it does not tell that a session has ended
		opts = append(opts, sqllock.WithKeepalive(200*time.Millisecond))
	}
	s := lockertest.Site{
		New:       func(t testing.TB) sqllock.Locker { return p.locker(t, opts...) },
		Lose:      func(t testing.TB, key sqllock.Key) { endHolder(t, p.server, key) },
		AwaitFree: func(t testing.TB) { p.server.AwaitFree(t, 3*time.Second) },
	}
	if p.stack.postgres() {
		s.SameKeys = true
		s.Shared = func(l sqllock.Locker) sqllock.Locker { return l.(*sqllock.Postgres).Shared() }
	}
	return s
}
