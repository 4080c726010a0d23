package sqllock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

// A read-only server may be a replica, whose named locks are its own.
func TestReadOnlyServerIsRefused(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *testbed.Server{
		"MySQL read_only":         func(t testing.TB) *testbed.Server { return testbed.StartMySQL(t, "--read-only") },
		"MySQL super_read_only":   func(t testing.TB) *testbed.Server { return testbed.StartMySQL(t, "--super-read-only") },
		"MariaDB read_only":       func(t testing.TB) *testbed.Server { return testbed.StartMariaDB(t, "--read-only") },
		"MariaDB innodb_readonly": func(t testing.TB) *testbed.Server { return testbed.StartMariaDB(t, "--innodb-read-only") },
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "super") && testing.Short() {
				t.Skip("-short")
			}
			t.Parallel()
			p := newLockPool(t, onMySQL, start(t), true, "")
			l := p.locker(t)
			c, err := p.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, l := range []sqllock.Locker{l, l.OnConn(c)} {
				if _, err := l.TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrUnsupported) || !strings.Contains(err.Error(), "read_only") {
					t.Errorf("TryAcquire: %v", err)
				}
				if _, err := l.Acquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrUnsupported) {
					t.Errorf("Acquire: %v", err)
				}
			}
			p.awaitInUse(t, 1)
			lock := mustTry(t, p.locker(t, sqllock.WithServerLocks(), sqllock.WithKeepalive(20*time.Millisecond)), testKey(t))
			time.Sleep(100 * time.Millisecond) // some keepalives find nothing to complain of
			mustRelease(t, lock)
		})
	}
}

// A server-side limit on statements, and a driver that does not wait for long, end slices, not the wait.
func TestMySQLShortTimeouts(t *testing.T) {
	for _, c := range []struct {
		stack  stack
		params string
	}{
		{onMySQL, "max_execution_time=200"}, {onMariaDB, "max_statement_time=0.2"},
		{onMySQL, "readTimeout=300ms"}, {onMariaDB, "readTimeout=300ms"}, {onMySQL, "readTimeout=1s"}, {onMariaDB, "readTimeout=1500ms"},
	} {
		t.Run(c.stack.name+"/"+c.params, func(t *testing.T) {
			t.Parallel()
			p := newLockPool(t, c.stack, c.stack.server(t).NewDatabase(t), false, c.params)
			a, b := p.locker(t), p.locker(t)
			lock := mustTry(t, a, testKey(t))
			got := make(chan *sqllock.Lock)
			go func() {
				lock, err := b.Acquire(context.Background(), testKey(t))
				if err != nil {
					t.Error(err)
				}
				got <- lock
			}()
			time.Sleep(2200 * time.Millisecond) // longer than each limit, and than a slice
			select {
			case <-got:
				t.Fatal("it did not wait")
			default:
			}
			mustRelease(t, lock)
			start := time.Now()
			if lock = <-got; lock != nil {
				mustRelease(t, lock)
			}
			if d := time.Since(start); d > time.Second {
				t.Errorf("handed over after %v", d)
			}
		})
	}
}

// Named locks are per server: two databases meet on them, unless the names are kept apart.
func TestWithDatabase(t *testing.T) {
	for _, k := range []stack{onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			p := newLockPool(t, k, k.server(t).NewDatabase(t), true, "")
			other := newLockPool(t, k, k.server(t).NewDatabase(t), true, "")
			lock := mustTry(t, p.locker(t), testKey(t))
			if _, err := other.locker(t).TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrHeld) {
				t.Errorf("without: %v", err)
			}
			a := mustTry(t, p.locker(t, sqllock.WithDatabase("a")), testKey(t))
			b := mustTry(t, other.locker(t, sqllock.WithDatabase("b")), testKey(t))
			if _, err := other.locker(t, sqllock.WithDatabase("a")).TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrHeld) {
				t.Errorf("with the same: %v", err)
			}
			mustRelease(t, lock, a, b)
		})
	}
}

// A statement of the holder's that was cancelled may run on for long, with the lock: Release ends it.
func TestCancelledStatementIsEnded(t *testing.T) {
	for _, k := range []stack{onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			p := newLockPool(t, k, k.server(t).NewDatabase(t), false, "")
			c, err := p.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			lock := mustTry(t, p.locker(t).OnConn(c), testKey(t))
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			var n int64
			if err := c.QueryRowContext(ctx, "SELECT BENCHMARK(200000000, SHA2('x', 512))").Scan(&n); err == nil {
				t.Fatal("it was not cancelled")
			}
			if err := lock.Release(); !errors.Is(err, sqllock.ErrLost) {
				t.Errorf("Release: %v", err)
			}
			p.server.AwaitFree(t, time.Second)
		})
	}
}

func TestMySQLHasNoTokens(t *testing.T) {
	p := newLockPool(t, onMySQL, onMySQL.server(t).NewDatabase(t), true, "")
	if _, err := sqllock.NewMySQL(p.DB, sqllock.WithToken()).TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrUnsupported) {
		t.Errorf("WithToken: %v", err)
	}
}
