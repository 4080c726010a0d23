package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
)

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
		terminate(t, db, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
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
