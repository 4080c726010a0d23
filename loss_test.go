package sqllock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

// awaitLoss waits for the holder to be told, and returns when that was.
func awaitLoss(t testing.TB, lock *sqllock.Lock, within time.Duration) time.Time {
	t.Helper()
	select {
	case <-lock.Context().Done():
	case <-time.After(within):
		t.Fatalf("not told within %v", within)
	}
	told := time.Now()
	if cause := context.Cause(lock.Context()); !errors.Is(cause, sqllock.ErrLost) {
		t.Errorf("cause: %v", cause)
	}
	if err := lock.Release(); !errors.Is(err, sqllock.ErrLost) {
		t.Errorf("Release: %v", err)
	}
	return told
}

// noticing are the options with which a stack's driver notices an end soon: lib/pq only by asking.
func (k stack) noticing() []sqllock.LockerOption {
	if k.name == onPQ.name {
		return []sqllock.LockerOption{sqllock.WithKeepalive(200 * time.Millisecond)}
	}
	return nil
}

func TestServerRestartedWhileHeld(t *testing.T) {
	for _, c := range []struct {
		start  func(testing.TB, ...string) *testbed.Server
		stacks []stack
	}{
		{testbed.StartPostgres, []stack{onPgx, onPQ}},
		{testbed.StartMySQL, []stack{onMySQL}},
		{testbed.StartMariaDB, []stack{onMariaDB}},
	} {
		t.Run(c.stacks[0].name, func(t *testing.T) {
			t.Parallel()
			s := c.start(t)
			var lockers []wholeLocker
			var locks []*sqllock.Lock
			for i, k := range c.stacks {
				p := newLockPool(t, k, s, i == 0, "")
				p.losing = true
				lockers = append(lockers, p.locker(t, k.noticing()...))
				locks = append(locks, mustTry(t, lockers[i], sqllock.Name(k.name)))
			}
			s.Restart(t)
			for i := range locks {
				awaitLoss(t, locks[i], 3*time.Second)
				lock, err := lockers[i].Acquire(t.Context(), sqllock.Name("x"))
				if err != nil {
					t.Fatalf("after the restart: %v", err)
				}
				mustRelease(t, lock)
			}
		})
	}
}

// onProxied runs f with a holder's pool behind a proxy, and another pool that is not.
func onProxied(t *testing.T, f func(t *testing.T, proxy *testbed.Proxy, p, other *lockPool)) {
	onLockers(t, func(t *testing.T, other *lockPool) {
		proxy := testbed.NewProxy(t, other.server.Addr())
		p := newLockPool(t, other.stack, other.server.Via(proxy), other.guarded, "")
		p.losing = true
		f(t, proxy, p, other)
	})
}

func TestConnectionCutWhileHeld(t *testing.T) {
	onProxied(t, func(t *testing.T, proxy *testbed.Proxy, p, other *lockPool) {
		l := p.locker(t, p.stack.noticing()...)
		lock := mustTry(t, l, testKey(t))
		proxy.Cut()
		awaitLoss(t, lock, 3*time.Second)
		next, err := other.locker(t).Acquire(t.Context(), testKey(t)) // the server has noticed, too
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, next)
		mustRelease(t, mustTry(t, l, testKey(t)))
	})
}

// skipWithoutIdleTimeout skips what needs the server to end a silent session: before version 14 TCP keepalives do that,
// and those are answered by the kernel that a silent proxy, or a stopped process, runs on.
func skipWithoutIdleTimeout(t *testing.T, s *testbed.Server) {
	t.Helper()
	if s.Kind == testbed.KindPostgres && s.Before(14) {
		t.Skip("PostgreSQL has idle_session_timeout since version 14")
	}
}

// silenceSetting names the setting by which a locker bounds how long a PostgreSQL server keeps a silent session.
func silenceSetting(s *testbed.Server) string {
	if s.Before(14) {
		return "tcp_keepalives_idle"
	}
	return "idle_session_timeout"
}

// When the network goes silent the holder knows it before the server gives the key to somebody else, and both
// happens within the bound.
func TestSilentNetworkWhileHeld(t *testing.T) {
	const bound, keepalive = 2 * time.Second, 300 * time.Millisecond
	onProxied(t, func(t *testing.T, proxy *testbed.Proxy, p, other *lockPool) {
		skipWithoutIdleTimeout(t, p.server)
		lock := mustTry(t, p.locker(t, sqllock.WithSilenceBound(bound), sqllock.WithKeepalive(keepalive)), testKey(t))
		got := make(chan time.Time)
		next := other.locker(t)
		go func() {
			defer close(got)
			lock, err := next.Acquire(context.Background(), testKey(t))
			at := time.Now()
			if err != nil {
				t.Errorf("the next one: %v", err)
				return
			}
			got <- at
			mustRelease(t, lock)
		}()
		awaitWaiting(t, other, "1")
		start := time.Now()
		proxy.Blackhole(true)
		defer proxy.Blackhole(false) // or drivers that do not heed contexts hang on
		told := awaitLoss(t, lock, bound)
		free := <-got
		t.Logf("told after %v, the server gave the key away after %v", told.Sub(start), free.Sub(start))
		if !told.Before(free) {
			t.Errorf("the server gave the key away %v before the holder was told", told.Sub(free))
		}
		if limit := keepalive + (bound-keepalive)/2 + 500*time.Millisecond; told.Sub(start) > limit {
			t.Errorf("told only after %v", told.Sub(start))
		}
		if free.Sub(start) > bound+2*time.Second {
			t.Errorf("the key was free only after %v", free.Sub(start))
		}
	})
}

// A short silence costs nothing.
func TestShortSilenceIsSurvived(t *testing.T) {
	onProxied(t, func(t *testing.T, proxy *testbed.Proxy, p, other *lockPool) {
		lock := mustTry(t, p.locker(t, sqllock.WithSilenceBound(4*time.Second), sqllock.WithKeepalive(100*time.Millisecond)), testKey(t))
		sent := proxy.Sent()
		proxy.Blackhole(true)
		await(t, 5*time.Second, func() error { // a keepalive was sent into the silence
			if proxy.Sent() == sent {
				return errors.New("no keepalive")
			}
			return nil
		})
		proxy.Blackhole(false)
		sent = proxy.Sent()
		await(t, 5*time.Second, func() error { // ... and was answered, since the next one follows
			if proxy.Sent() == sent {
				return errors.New("no keepalive")
			}
			return nil
		})
		mustRelease(t, lock)
	})
}

// A quiet holder is kept alive for longer than the bound.
func TestKeepalive(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		l := p.locker(t, sqllock.WithSilenceBound(time.Second))
		lock := mustTry(t, l, testKey(t))
		for start := time.Now(); time.Since(start) < 2500*time.Millisecond; { // local refusals must not keep it from being kept alive
			if _, err := l.TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrHeld) {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if err := lock.Context().Err(); err != nil {
			t.Errorf("lost: %v", context.Cause(lock.Context()))
		}
		mustRelease(t, lock)
	})
}

const childEnv = "SQLLOCK_TEST_CHILD"

// TestChild is what this test binary does when another test has started it as a process of its own.
func TestChild(t *testing.T) {
	role, rest, _ := strings.Cut(os.Getenv(childEnv), "|")
	if role == "" {
		t.Skip("not a child process")
	}
	name, dsn, _ := strings.Cut(rest, "|")
	children[role](t, name, dsn)
}

var children = map[string]func(t *testing.T, driver, dsn string){"hold": childHolds, "hold through silence": childHoldsThroughSilence, "fight": childFights, "history": childHistory}

// child starts a process that plays the role and returns what it says, line by line.
func child(t testing.TB, role string, k stack, s *testbed.Server) (*exec.Cmd, io.Writer, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=120s")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%s", childEnv, role, k.driverName(), s.DSN()))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, in, bufio.NewScanner(out)
}

// holdingChild is a child that holds its lock.
func holdingChild(t testing.TB, role string, k stack, s *testbed.Server) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd, _, out := child(t, role, k, s)
	if !out.Scan() || out.Text() != "held" {
		t.Fatalf("the child says %q, %v", out.Text(), out.Err())
	}
	return cmd, out
}

func (k stack) driverName() string {
	switch k.name {
	case onPgx.name:
		return "pgx-sqllock"
	case onPQ.name:
		return "postgres"
	}
	return "mysql-sqllock"
}

const childKey = "child"

// childHolds holds a lock until it is lost.
func childHolds(t *testing.T, driver, dsn string) { childHoldsWith(t, driver, dsn, time.Second) }

func childHoldsThroughSilence(t *testing.T, driver, dsn string) {
	childHoldsWith(t, driver, dsn, childSilence)
}

func childHoldsWith(t *testing.T, driver, dsn string, silence time.Duration) {
	l := childLocker(t, driver, dsn, sqllock.WithSilenceBound(silence))
	lock := mustTry(t, l, sqllock.Namespace(dsn).Name(childKey))
	fmt.Println("held")
	<-lock.Context().Done()
	fmt.Println(context.Cause(lock.Context()))
	fmt.Println(lock.Release())
}

// A process that was stopped for longer than the bound has lost its lock, and knows it as soon as it goes on.
func TestProcessStoppedWhileHeld(t *testing.T) {
	for _, k := range []stack{onPgx, onPQ, onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := k.server(t).NewDatabase(t)
			skipWithoutIdleTimeout(t, s)
			p := newLockPool(t, k, s, false, "")
			l := p.locker(t)
			key := sqllock.Namespace(s.DSN()).Name(childKey)
			cmd, out := holdingChild(t, "hold", k, s)
			if _, err := l.TryAcquire(t.Context(), key); !errors.Is(err, sqllock.ErrHeld) {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			lock, err := l.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); d > 4*time.Second {
				t.Errorf("the key was free after %v only", d)
			}
			start = time.Now()
			if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if !out.Scan() || !strings.Contains(out.Text(), sqllock.ErrLost.Error()) {
					t.Errorf("the child says %q, %v", out.Text(), out.Err())
				}
			}
			t.Logf("the child knew after %v", time.Since(start))
			mustRelease(t, lock)
		})
	}
}

const childSilence = 4 * time.Second // so that holders are told after 2.5 s, and one that is asked has 1.5 s to answer

// A process that goes on when its holders should have been told already does not give a silent server the whole time again:
// another may have the lock.
func TestProcessStoppedInSilence(t *testing.T) {
	for _, k := range []stack{onPgx, onPQ, onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := k.server(t).NewDatabase(t)
			skipWithoutIdleTimeout(t, s)
			proxy := testbed.NewProxy(t, s.Addr())
			cmd, out := holdingChild(t, "hold through silence", k, s.Via(proxy))
			proxy.Blackhole(true)
			if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			time.Sleep(childSilence * 3 / 4)
			start := time.Now()
			if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if !out.Scan() || !strings.Contains(out.Text(), sqllock.ErrLost.Error()) {
				t.Errorf("the child says %q, %v", out.Text(), out.Err())
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("the child knew after %v only", took)
			}
			proxy.Blackhole(false)
			s.AwaitFree(t, 2*childSilence)
		})
	}
}
