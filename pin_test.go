package sqllock_test

import (
	"context"
	"database/sql"
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
					show = "SELECT current_setting('idle_session_timeout')"
					if set {
						params = "idle_session_timeout=77777"
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

// Losers cost the pool nothing.
func TestFailedTriesGiveTheConnectionBack(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		other := newLockPool(t, p.stack, p.server, false, "")
		lock := mustTry(t, other.locker(t), testKey(t))
		p.SetMaxOpenConns(5)
		for _, opts := range [][]sqllock.LockerOption{nil, {sqllock.WithDedicatedConn()}} {
			l := p.locker(t, opts...)
			for range 25 {
				if _, err := l.TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrHeld) {
					t.Fatal(err)
				}
				if n := p.Stats().InUse; n != 0 {
					t.Fatalf("%d connections in use after a failed try", n)
				}
				if _, err := sqllock.Run(t.Context(), p.locker(t), testKey(t), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		mustRelease(t, lock)
	})
}

// A locker never takes the last connection, and never hangs silently for want of one.
func TestPoolTooSmall(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		p.SetMaxOpenConns(1)
		if _, err := p.locker(t).TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrPoolTooSmall) {
			t.Errorf("a pool of one: %v", err)
		}
		if _, err := p.locker(t).Acquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrPoolTooSmall) {
			t.Errorf("a pool of one: %v", err)
		}
		p.SetMaxOpenConns(4)
		l, other := p.locker(t, sqllock.WithDedicatedConn()), p.locker(t)
		var locks []*sqllock.Lock
		for i := range 3 {
			locks = append(locks, mustTry(t, l, sqllock.Namespace(t.Name()).Name(strconv.Itoa(i))))
		}
		for _, l := range []sqllock.Locker{l, other} { // lockers of one pool count together
			if _, err := l.TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrPoolTooSmall) {
				t.Errorf("the last connection: %v", err)
			}
		}
		value(t, p, "SELECT 1") // the holders can work
		mustRelease(t, locks...)
		p.awaitInUse(t, 0)
		mustRelease(t, mustTry(t, l, testKey(t)))
	}, onPgx, onMariaDB)
}

// Whoever has all connections of the pool itself, and then wants a lock, waits for itself.
func TestPoolAllInUse(t *testing.T) {
	p := newLockPool(t, onPgx, onPgx.server(t).NewDatabase(t), true, "")
	p.SetMaxOpenConns(2)
	l := p.locker(t)
	for range 2 {
		c, err := p.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.TryAcquire(ctx, testKey(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("until the deadline: %v", err)
	}
	if testing.Short() {
		return
	}
	if _, err := l.TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrPoolTooSmall) {
		t.Errorf("without a deadline: %v", err)
	}
}

// A waiter whose context ends leaves nothing behind: no waiting session, no connection, no lock.
func TestWaiterLeavesNothing(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		other := newLockPool(t, p.stack, p.server, false, "")
		lock := mustTry(t, other.locker(t), testKey(t))
		p.SetMaxOpenConns(3)
		l := p.locker(t)
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if _, err := l.Acquire(ctx, testKey(t)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire: %v", err)
			}
			cancel()
		}
		p.awaitInUse(t, 0)
		if n := waiting(t, p); n != "0" {
			t.Errorf("%s sessions still wait", n)
		}
		mustRelease(t, lock)
		p.server.AwaitFree(t, time.Second)
	})
}

// waiting counts the server's sessions that wait for a lock.
func waiting(t testing.TB, p *lockPool) string {
	t.Helper()
	query := "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
	if !p.stack.postgres() {
		query = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND STATE LIKE '%user%lock%'"
	}
	return value(t, p.server.Outside(t), query)
}

func awaitWaiting(t testing.TB, p *lockPool, n string) {
	t.Helper()
	await(t, 5*time.Second, func() error {
		if got := waiting(t, p); got != n {
			return fmt.Errorf("%s sessions wait, want %s", got, n)
		}
		return nil
	})
}

// Close releases everything, also what is being waited for, and leaves no goroutine behind.
func TestLockerClose(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		l := p.locker(t)
		a, b := mustTry(t, l, testKey(t)), mustTry(t, l, sqllock.Name(t.Name()))
		waiter := make(chan error)
		go func() {
			_, err := l.Acquire(context.Background(), testKey(t))
			waiter <- err
		}()
		awaitWaiting(t, p, "1")
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-waiter; err == nil {
			t.Error("Acquire after Close: nil")
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

// What is idle in the pool may be dead: the server was restarted, or a firewall has forgotten it.
func TestStaleConnectionsAreReplaced(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		p.SetMaxIdleConns(5)
		for _, get := range []func(wholeLocker) (*sqllock.Lock, error){
			func(l wholeLocker) (*sqllock.Lock, error) { return l.TryAcquire(t.Context(), testKey(t)) },
			func(l wholeLocker) (*sqllock.Lock, error) { return l.Acquire(t.Context(), testKey(t)) },
		} {
			fillIdle(t, p, 5)
			killSessions(t, p)
			lock, err := get(p.locker(t))
			if err != nil {
				t.Fatal(err)
			}
			mustRelease(t, lock)
			p.awaitInUse(t, 0)
		}
		// also under a locker whose own connection rests
		l := p.locker(t)
		mustRelease(t, mustTry(t, l, testKey(t)))
		killSessions(t, p)
		mustRelease(t, mustTry(t, l, testKey(t)))
	})
}

func fillIdle(t testing.TB, p *lockPool, n int) {
	t.Helper()
	conns := make([]*sql.Conn, n)
	for i := range conns {
		var err error
		if conns[i], err = p.Conn(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range conns {
		c.Close()
	}
}

// killSessions ends every session of p's database, and returns when they have gone.
func killSessions(t testing.TB, p *lockPool) {
	t.Helper()
	db := p.server.Outside(t)
	defer db.Close()
	if p.stack.postgres() {
		if _, err := db.Exec("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"); err != nil {
			t.Fatal(err)
		}
		return
	}
	others := "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()"
	rows, err := db.Query(others)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		db.Exec(fmt.Sprint("KILL ", id)) // it may have gone by itself
	}
	await(t, 5*time.Second, func() error {
		if n := value(t, db, "SELECT COUNT(*) FROM ("+others+") o"); n != "0" {
			return fmt.Errorf("%s sessions are left", n)
		}
		return nil
	})
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
