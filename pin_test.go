package sqllock_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sqllock/sqllock"
)

func mustTry(t testing.TB, l sqllock.Locker, key sqllock.Key) *sqllock.Lock {
	t.Helper()
	lock, err := l.TryAcquire(context.Background(), key)
	if err != nil {
		t.Fatalf("TryAcquire: %v", err)
	}
	return lock
}

func mustRelease(t testing.TB, locks ...*sqllock.Lock) {
	t.Helper()
	for _, l := range locks {
		if err := l.Release(); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
}

// testKey is a key of t's own: MySQL's names are per server, not per database.
func testKey(t testing.TB) sqllock.Key { return sqllock.Namespace("test").Name(t.Name()) }

// Many locks share one connection, and all are lost with it.
func TestPinIsShared(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		p.losing = true
		l := p.locker(t, sqllock.WithKeepalive(300*time.Millisecond))
		locks := make([]*sqllock.Lock, 20)
		for i := range locks {
			locks[i] = mustTry(t, l, sqllock.Namespace(t.Name()).Name(strconv.Itoa(i)))
		}
		p.awaitInUse(t, 1)
		endHolder(t, p.server, locks[7].Key())
		for _, lock := range locks {
			select {
			case <-lock.Context().Done():
			case <-time.After(5 * time.Second):
				t.Fatal("not told")
			}
			if err := lock.Release(); !errors.Is(err, sqllock.ErrLost) {
				t.Errorf("Release: %v", err)
			}
		}
	})
}

func TestPinIsDedicated(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		p.losing = true
		l := p.locker(t, sqllock.WithDedicatedConn())
		a, b := mustTry(t, l, testKey(t)), mustTry(t, l, sqllock.Name(t.Name()))
		p.awaitInUse(t, 2)
		endHolder(t, p.server, a.Key())
		if err := a.Release(); !errors.Is(err, sqllock.ErrLost) {
			t.Errorf("Release: %v", err)
		}
		if err := b.Context().Err(); err != nil {
			t.Errorf("the other one: %v", err)
		}
		mustRelease(t, b)
	})
}

// A connection goes back as it was: with the limits that its user has set.
func TestPinRestoresTheSession(t *testing.T) {
	for _, k := range []stack{onPgx, onPQ, onMySQL, onMariaDB} {
		for _, set := range []bool{false, true} {
			t.Run(fmt.Sprint(k.name, "/", set), func(t *testing.T) {
				params, show := "", "SELECT @@wait_timeout"
				switch {
				case k.postgres():
					bound := silenceSetting(k.server(t))
					show = "SELECT current_setting('" + bound + "')"
					if set {
						params = bound + "=7777"
					}
				case set:
					params = "wait_timeout=7777"
				}
				p := newLockPool(t, k, k.server(t).NewDatabase(t), true, params)
				p.SetMaxOpenConns(2)
				p.SetMaxIdleConns(1)
				before := value(t, p, show)
				l := p.locker(t)
				mustRelease(t, mustTry(t, l, testKey(t)))
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				if after := value(t, p, show); after != before {
					t.Errorf("%s: %s, before: %s", show, after, before)
				}
				if n := p.Stats().OpenConnections; n != 1 {
					t.Errorf("%d connections are open: the pinned one was not kept", n)
				}
			})
		}
	}
}

// Close releases everything, also what is being waited for, and leaves no goroutine behind.
func TestLockerClose(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		l := p.locker(t)
		a, b := mustTry(t, l, testKey(t)), mustTry(t, l, sqllock.Name(t.Name()))
		other := p.locker(t, sqllock.WithDedicatedConn())
		elsewhere := mustTry(t, other, sqllock.Namespace("elsewhere").Name(t.Name()))
		waiters := make(chan error)
		for _, key := range []sqllock.Key{testKey(t), sqllock.Namespace("elsewhere").Name(t.Name()), sqllock.Namespace("elsewhere").Name(t.Name())} {
			go func() {
				_, err := l.Acquire(context.Background(), key)
				waiters <- err
			}()
		}
		awaitWaiting(t, p, "1") // the others wait inside of the process
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		for range 3 {
			if err := <-waiters; err == nil {
				t.Error("Acquire after Close: nil")
			}
		}
		mustRelease(t, elsewhere)
		if err := other.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := p.Stats().InUse; n != 0 {
			t.Errorf("%d connections in use after Close", n)
		}
		p.server.AwaitFree(t, time.Second)
		mustRelease(t, a, b)
		if cause := context.Cause(a.Context()); !errors.Is(cause, sqllock.ErrReleased) {
			t.Errorf("cause: %v", cause)
		}
		for _, get := range []func(context.Context, sqllock.Key) (*sqllock.Lock, error){l.TryAcquire, l.Acquire} {
			if _, err := get(t.Context(), testKey(t)); err == nil {
				t.Error("after Close a lock was acquired")
			}
		}
	})
}

// A locker that is dropped without Close leaves nothing behind either, once its locks are released.
func TestLockersLeaveNoGoroutine(t *testing.T) {
	ignore := []goleak.Option{goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"),
		goleak.IgnoreAnyFunction("github.com/go-sql-driver/mysql.(*mysqlConn).startWatcher.func1")}
	for _, k := range []stack{onPgx, onPQ, onMySQL, onMariaDB} {
		p := newLockPool(t, k, k.server(t).NewDatabase(t), false, "")
		for i, opts := range [][]sqllock.LockerOption{nil, {sqllock.WithDedicatedConn()}} {
			key := sqllock.Namespace(t.Name()).Name(strconv.Itoa(i))
			var l sqllock.Locker = sqllock.NewMySQL(p.DB, opts...)
			if k.postgres() {
				l = sqllock.NewPostgres(p.DB, opts...)
			}
			lock := mustTry(t, l, key)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			l.Acquire(ctx, key)
			cancel()
			mustRelease(t, lock)
		}
		p.awaitInUse(t, 0)
	}
	if err := goleak.Find(ignore...); err != nil {
		t.Error(err)
	}
}

// Close while others acquire and release: nobody is given a lock that nobody releases, nobody hangs.
func TestLockerCloseInTheCrowd(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		for range 5 {
			l := p.locker(t)
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					for {
						lock, err := l.Acquire(context.Background(), sqllock.Namespace(t.Name()).Name(strconv.Itoa(i%3)))
						if err != nil {
							return
						}
						lock.Release()
					}
				})
			}
			lock, err := l.Acquire(t.Context(), testKey(t)) // the crowd is at work
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			all.Wait()
			mustRelease(t, lock)
		}
	}, onPgx, onMariaDB)
}

// A closed pool does not take a lock away.
func TestPoolClosedWhileHeld(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		other := newLockPool(t, p.stack, p.server, false, "").locker(t)
		l := p.locker(t)
		lock := mustTry(t, l, testKey(t))
		p.DB.Close()
		if _, err := other.TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrHeld) {
			t.Errorf("after the pool's Close: %v", err)
		}
		if err := lock.Context().Err(); err != nil {
			t.Errorf("the lock's context: %v", err)
		}
		mustRelease(t, lock)
		mustRelease(t, mustTry(t, other, testKey(t)))
	})
}

// The guard knows what a pin holds, and that it is no leak.
func TestPinOnAGuardedPool(t *testing.T) {
	for _, k := range []stack{onPgx, onPQ, onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			p := newLockPool(t, k, k.server(t).NewDatabase(t), true, "")
			l := p.locker(t)
			lock := mustTry(t, l, testKey(t))
			held, err := sqllock.Held(p.DB)
			if err != nil || len(held) != 1 || held[0].Place() == "" || held[0].Count != 1 || held[0].Shared {
				t.Errorf("Held: %v, %v", held, err)
			}
			mustRelease(t, lock)
			held, err = sqllock.Held(p.DB)
			if err != nil || len(held) != 0 {
				t.Errorf("Held after Release: %v, %v", held, err)
			}
			lost := mustTry(t, l, testKey(t))
			endHolder(t, p.server, lost.Key())
			if err := lost.Release(); !errors.Is(err, sqllock.ErrLost) {
				t.Error(err)
			}
			await(t, 5*time.Second, func() error { // the holder is told first, the reporter later
				if stats, err := sqllock.ReadStats(p.DB); err != nil || stats.Reports == 0 {
					return fmt.Errorf("no report: %+v, %v", stats, err)
				}
				return nil
			})
			stats, _ := sqllock.ReadStats(p.DB)
			if stats.LocksAcquired != 2 || stats.LocksReleased != 1 || stats.LocksLost != 1 || stats.LocksHeld != 0 || stats.LocksLeaked != 0 {
				t.Errorf("%+v", stats)
			}
			r := p.reports.take()
			if len(r) != 1 || r[0].Kind != sqllock.SessionDied || len(r[0].Holds) != 1 {
				t.Errorf("reports: %v", r)
			}
		})
	}
}

// A lock that is held for too long is reported, like one that a statement took.
func TestPinHoldLimit(t *testing.T) {
	r := &reports{}
	s := onPgx.server(t).NewDatabase(t)
	db := sqllock.OpenDB(onPgx.connector(t, s, ""), sqllock.WithReport(r.add), sqllock.WithHoldLimit(30*time.Millisecond))
	defer db.Close()
	l := sqllock.NewPostgres(db)
	defer l.Close()
	mustRelease(t, mustTry(t, l, sqllock.Name("short")))
	lock := mustTry(t, l, testKey(t))
	var got []sqllock.Report
	await(t, 5*time.Second, func() error {
		if got = append(got, r.take()...); len(got) == 0 {
			return errors.New("no report")
		}
		return nil
	})
	if len(got) != 1 || got[0].Kind != sqllock.HeldTooLong || len(got[0].Holds) != 1 || got[0].Place() == "" {
		t.Errorf("reports: %v", got)
	}
	mustRelease(t, lock)
}
