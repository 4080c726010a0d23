package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/lockertest"
)

func mustConn(t testing.TB, db *sql.DB) *sql.Conn {
	t.Helper()
	c, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestOnConnConforms(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		p.losing = true
		l := p.locker(t)
		lockertest.Run(t, lockertest.Site{
			New:       func(t testing.TB) sqllock.Locker { return l.OnConn(mustConn(t, p.DB)) },
			Lose:      func(t testing.TB, key sqllock.Key) { endHolder(t, p.server, key) },
			AwaitFree: func(t testing.TB) { p.server.AwaitFree(t, 3*time.Second) },
			SameKeys:  p.stack.postgres(),
			Deaf:      true,
		})
	})
}

// One connection, many goroutines: the server would grant them everything.
func TestOnConnExcludesItself(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		c, l := mustConn(t, p.DB), p.locker(t)
		var all sync.WaitGroup
		var inside atomic.Int64
		for range 8 {
			all.Go(func() {
				for range 10 {
					lock, err := l.OnConn(c).TryAcquire(t.Context(), testKey(t))
					if errors.Is(err, sqllock.ErrHeld) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d at a time", n)
					}
					inside.Add(-1)
					mustRelease(t, lock)
				}
			})
		}
		all.Wait()
	})
}

// The guard sees what is held on a caller's connection, and a connection that comes back clean is kept.
func TestOnConnOnAGuardedPool(t *testing.T) {
	for _, k := range []stack{onPgx, onPQ, onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			p := newLockPool(t, k, k.server(t).NewDatabase(t), true, "")
			c := mustConn(t, p.DB)
			lock := mustTry(t, p.locker(t).OnConn(c), testKey(t))
			if held, err := sqllock.Held(p.DB); err != nil || len(held) != 1 || !strings.Contains(held[0].Place(), "_test.go") {
				t.Errorf("Held: %v, %v", held, err)
			}
			mustRelease(t, lock)
			c.Close()
			if n := p.Stats().OpenConnections; n != 1 {
				t.Errorf("%d open connections: the clean one was discarded", n)
			}
			if stats, _ := sqllock.ReadStats(p.DB); stats.Probes != 0 {
				t.Errorf("the server was asked: %+v", stats)
			}
			c = mustConn(t, p.DB)
			lock = mustTry(t, p.locker(t).OnConn(c), testKey(t))
			c.Close()
			p.server.AwaitFree(t, time.Second)
			if r := p.reports.take(); len(r) != 1 || r[0].Kind != sqllock.Leak {
				t.Errorf("reports: %v", r)
			}
			if err := lock.Release(); !errors.Is(err, sqllock.ErrLost) {
				t.Errorf("Release on a closed connection: %v", err)
			}
		})
	}
}

// In a transaction that has failed PostgreSQL unlocks nothing: the session has to go.
func TestOnConnInAFailedTransaction(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		p.losing = true
		c := mustConn(t, p.DB)
		lock := mustTry(t, p.locker(t).OnConn(c), testKey(t))
		tx, err := c.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec("SELECT 1 FROM no_such_table"); err == nil {
			t.Fatal("there is such a table")
		}
		err = lock.Release()
		if p.stack.postgres() {
			if err == nil || errors.Is(err, sqllock.ErrLost) {
				t.Errorf("Release: %v", err) // it was held until now
			}
		} else if err != nil {
			t.Errorf("Release: %v", err)
		}
		p.server.AwaitFree(t, time.Second)
	})
}

// What is held through one connection fences the writes that are made through it.
func TestOnConnFences(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		p.losing = true
		mustExec(t, p.DB, "CREATE TABLE fenced (n INT)")
		c := mustConn(t, p.DB)
		lock := mustTry(t, p.locker(t).OnConn(c), testKey(t))
		endHolder(t, p.server, testKey(t))
		if _, err := c.ExecContext(t.Context(), "INSERT INTO fenced VALUES (1)"); err == nil {
			t.Error("a write after the loss")
		}
		if err := lock.Release(); !errors.Is(err, sqllock.ErrLost) {
			t.Errorf("Release: %v", err)
		}
		if n := value(t, p, "SELECT COUNT(*) FROM fenced"); n != "0" {
			t.Errorf("%s rows", n)
		}
	})
}

// A session that is discarded ends, also where the driver's connection belongs to another pool.
func TestDiscardBelowThePool(t *testing.T) {
	s := onPgx.server(t).NewDatabase(t)
	pool, err := pgxpool.New(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	l := sqllock.NewPostgres(db)
	c := mustConn(t, db)
	lock := mustTry(t, l.OnConn(c), testKey(t))
	if _, err := c.ExecContext(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	c.ExecContext(t.Context(), "SELECT 1 FROM no_such_table")
	if err := lock.Release(); err == nil {
		t.Error("Release in a failed transaction: nil")
	}
	s.AwaitFree(t, time.Second)
	mustRelease(t, mustTry(t, l, testKey(t)))
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// AcquireAll has one order, whatever its arguments', and takes all or nothing.
func TestAcquireAll(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		n := sqllock.Namespace(t.Name())
		a, b, c := n.Name("a"), n.Name("b"), n.Name("c")
		l := p.locker(t)
		locks, err := l.AcquireAll(t.Context(), c, a, b, a)
		if err != nil || len(locks) != 3 {
			t.Fatalf("%d locks, %v", len(locks), err)
		}
		mustRelease(t, locks...)
		if locks, err := l.AcquireAll(t.Context()); err != nil || len(locks) != 0 {
			t.Errorf("of nothing: %v, %v", locks, err)
		}
		if p.stack.postgres() {
			locks, err := l.AcquireAll(t.Context(), a, sqllock.ID(a.Int64()))
			if err != nil || len(locks) != 1 {
				t.Errorf("two spellings of one key: %d locks, %v", len(locks), err)
			}
			mustRelease(t, locks...)
		}
		held := mustTry(t, p.locker(t), b)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := l.AcquireAll(ctx, a, b, c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("beside a holder: %v", err)
		}
		mustRelease(t, mustTry(t, l, a), mustTry(t, l, c), held)
		acquireAllInTheCrowd(t, p, a, b, c)
	})
}

func acquireAllInTheCrowd(t *testing.T, p *lockPool, a, b, c sqllock.Key) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	lockers := []wholeLocker{p.locker(t), p.locker(t)}
	var all sync.WaitGroup
	for i, keys := range [][]sqllock.Key{{a, b, c}, {c, b, a}, {b, a}, {c, a}} {
		all.Go(func() {
			for range 10 {
				locks, err := lockers[i%2].AcquireAll(ctx, keys...)
				if err != nil {
					t.Errorf("AcquireAll: %v", err)
					return
				}
				mustRelease(t, locks...)
			}
		})
	}
	all.Wait()
}

func TestLockerOptions(t *testing.T) {
	p := newLockPool(t, onPgx, onPgx.server(t).NewDatabase(t), true, "")
	for name, l := range map[string]sqllock.Locker{
		"no pool":                             sqllock.NewPostgres(nil),
		"WithKeepalive(0)":                    sqllock.NewPostgres(p.DB, sqllock.WithKeepalive(0)),
		"WithSilenceBound(1ms)":               sqllock.NewPostgres(p.DB, sqllock.WithSilenceBound(time.Millisecond)),
		"a keepalive that exceeds the bound":  sqllock.NewPostgres(p.DB, sqllock.WithSilenceBound(time.Second), sqllock.WithKeepalive(time.Second)),
		"WithDatabase on PostgreSQL":          sqllock.NewPostgres(p.DB, sqllock.WithDatabase("x")),
		"on a connection, with wrong options": sqllock.NewPostgres(p.DB, sqllock.WithKeepalive(-1)).OnConn(nil),
	} {
		if _, err := l.TryAcquire(t.Context(), testKey(t)); err == nil || !strings.HasPrefix(err.Error(), "sqllock: ") {
			t.Errorf("%s: TryAcquire: %v", name, err)
		}
		if _, err := l.Acquire(t.Context(), testKey(t)); err == nil {
			t.Errorf("%s: Acquire: nil", name)
		}
	}
	mustRelease(t, mustTry(t, p.locker(t, nil, sqllock.WithKeepalive(time.Minute)), testKey(t)))
}
