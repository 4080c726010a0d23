// Package lockertest is the conformance suite of everything that calls itself a [sqllock.Locker]: the real ones, on every
// server and driver, and the in-memory one that users test with.
package lockertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
)

// A Site is a place where lockers meet: a server, or a memory.
type Site struct {
	// New returns one more locker, as another process would have it.
	New func(t testing.TB) sqllock.Locker
	// Shared returns a locker's shared side; nil if there are no shared locks.
	Shared func(sqllock.Locker) sqllock.Locker
	// Lose ends what holds the key, as a crash of the server's session would.
	Lose func(t testing.TB, key sqllock.Key)
	// AwaitFree fails t if something stays held: it looks from outside.
	AwaitFree func(t testing.TB)
	// SameKeys says that a name and the ID that it hashes to are one key.
	SameKeys bool
	// Deaf says that nothing watches the session, as with OnConn: a lock's context does not tell a loss, and
	// waiting is slow.
	Deaf bool
}

// patience is how long the suite waits for what should happen at once: the machine may be busy.
const patience = 10 * time.Second

// Run runs every test of the suite on the site.
func Run(t *testing.T, s Site) {
	for _, c := range []struct {
		name  string
		test  func(*suite)
		hears bool // the test wants to be told of a loss, or to wait often
	}{
		{"Exclusive", (*suite).exclusive, false},
		{"NotReentrant", (*suite).notReentrant, false},
		{"ReleaseTwice", (*suite).releaseTwice, false},
		{"AcquireWaits", (*suite).acquireWaits, false},
		{"WaiterGivesUp", (*suite).waiterGivesUp, false},
		{"ManyGiveUp", (*suite).manyGiveUp, false},
		{"DeadContext", (*suite).deadContext, false},
		{"Context", (*suite).context, false},
		{"Loss", (*suite).loss, true},
		{"LossThenReleaseAtOnce", (*suite).lossRace, false},
		{"Run", (*suite).run, false},
		{"RunFails", (*suite).runFails, false},
		{"RunPanics", (*suite).runPanics, false},
		{"RunLoses", (*suite).runLoses, true},
		{"RunContext", (*suite).runContext, false},
		{"Forgotten", (*suite).forgotten, false},
		{"OnlyTheContext", (*suite).onlyTheContext, true},
		{"Shared", (*suite).shared, false},
		{"SharedBesideExclusive", (*suite).sharedBesideExclusive, false},
		{"Keys", (*suite).keys, false},
		{"Crowd", (*suite).crowd, true},
	} {
		if c.hears && s.Deaf {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.test(&suite{T: t, Site: s, key: sqllock.Name(strings.ToLower(t.Name()))})
			s.AwaitFree(t)
		})
	}
}

// suite is one test of the suite; key is its own.
type suite struct {
	*testing.T
	Site
	key sqllock.Key
}

func (s *suite) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.Cleanup(cancel)
	return ctx
}

func (s *suite) try(l sqllock.Locker, key sqllock.Key) *sqllock.Lock {
	s.Helper()
	lock, err := l.TryAcquire(s.ctx(), key)
	if err != nil {
		s.Fatalf("TryAcquire: %v", err)
	}
	return lock
}

func (s *suite) acquire(l sqllock.Locker, key sqllock.Key) *sqllock.Lock {
	s.Helper()
	lock, err := l.Acquire(s.ctx(), key)
	if err != nil {
		s.Fatalf("Acquire: %v", err)
	}
	return lock
}

func (s *suite) busy(l sqllock.Locker, key sqllock.Key) *sqllock.HeldError {
	s.Helper()
	lock, err := l.TryAcquire(s.ctx(), key)
	var held *sqllock.HeldError
	if !errors.Is(err, sqllock.ErrHeld) || !errors.As(err, &held) || lock != nil || held.Key != key {
		s.Fatalf("TryAcquire of a held key: %v, %v", lock, err)
	}
	return held
}

func (s *suite) release(lock *sqllock.Lock) {
	s.Helper()
	if err := lock.Release(); err != nil {
		s.Fatalf("Release: %v", err)
	}
}

// Done waits for the end of a context and fails t if its cause is another one.
func Done(t testing.TB, ctx context.Context, cause error) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(patience):
		t.Fatalf("the context has not ended; want cause %v", cause)
	}
	if got := context.Cause(ctx); !errors.Is(got, cause) {
		t.Errorf("the cause is %v, want %v", got, cause)
	}
}

func (s *suite) exclusive() {
	a, b := s.New(s), s.New(s)
	lock := s.try(a, s.key)
	if lock.Key() != s.key {
		s.Errorf("Key() = %v", lock.Key())
	}
	held := s.busy(b, s.key)
	if _, err := held.Holder(s.ctx()); err != nil {
		s.Errorf("Holder: %v", err)
	}
	s.release(s.try(b, sqllock.Namespace("another").Name("key of "+s.Name())))
	s.release(lock)
	if who, err := held.Holder(s.ctx()); who != "" || err != nil {
		s.Errorf("Holder of a free key: %q, %v", who, err)
	}
	s.release(s.try(b, s.key))
}

func (s *suite) notReentrant() {
	a := s.New(s)
	lock := s.try(a, s.key)
	s.busy(a, s.key)
	s.release(lock)
	second := s.try(a, s.key)
	s.busy(a, s.key)
	s.busy(s.New(s), s.key)
	if err := lock.Release(); err != nil { // the first one's, again: it must not release the second
		s.Error(err)
	}
	s.busy(s.New(s), s.key)
	s.release(second)
}

func (s *suite) releaseTwice() {
	lock := s.try(s.New(s), s.key)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := lock.Release(); err != nil {
				s.Errorf("Release: %v", err)
			}
		})
	}
	all.Wait()
	s.release(s.try(s.New(s), s.key))
}

// after waits for f, which waits for a lock, and fails t if it comes back before let was called.
func (s *suite) after(let func(), f func() *sqllock.Lock) *sqllock.Lock {
	s.Helper()
	got := make(chan *sqllock.Lock)
	go func() {
		defer close(got) // Fatal ends the goroutine
		got <- f()
	}()
	select {
	case lock := <-got:
		s.Fatalf("it did not wait: %v", lock)
	case <-time.After(50 * time.Millisecond):
	}
	let()
	lock := <-got
	if lock == nil {
		s.FailNow()
	}
	return lock
}

func (s *suite) acquireWaits() {
	a, b := s.New(s), s.New(s)
	lock := s.acquire(a, s.key)
	for _, l := range []sqllock.Locker{b, a, a} { // of another process, and of this one
		lock = s.after(func() { s.release(lock) }, func() *sqllock.Lock { return s.acquire(l, s.key) })
		s.busy(a, s.key)
		s.busy(b, s.key)
	}
	s.release(lock)
}

func (s *suite) waiterGivesUp() {
	a, b := s.New(s), s.New(s)
	lock := s.acquire(a, s.key)
	for _, l := range []sqllock.Locker{a, b} {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		if _, err := l.Acquire(ctx, s.key); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sqllock.ErrHeld) {
			s.Errorf("after the deadline: %v", err)
		}
		cancel()
		ctx, cancel = context.WithCancel(context.Background())
		time.AfterFunc(30*time.Millisecond, cancel)
		if _, err := l.Acquire(ctx, s.key); !errors.Is(err, context.Canceled) {
			s.Errorf("after the cancellation: %v", err)
		}
	}
	s.release(lock)
	s.release(s.acquire(b, s.key)) // nobody took it in their place
}

func (s *suite) manyGiveUp() {
	a, b := s.New(s), s.New(s)
	lock := s.acquire(a, s.key)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
			defer cancel()
			if _, err := b.Acquire(ctx, s.key); !errors.Is(err, context.DeadlineExceeded) {
				s.Errorf("after the deadline: %v", err)
			}
		})
	}
	all.Wait()
	s.release(lock)
	s.release(s.acquire(b, s.key))
}

func (s *suite) deadContext() {
	l := s.New(s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.TryAcquire(ctx, s.key); !errors.Is(err, context.Canceled) {
		s.Errorf("TryAcquire: %v", err)
	}
	if _, err := l.Acquire(ctx, s.key); !errors.Is(err, context.Canceled) {
		s.Errorf("Acquire: %v", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	lock, err := l.TryAcquire(ctx, s.key)
	if err != nil {
		s.Fatal(err)
	}
	cancel() // what a context of the caller's does later does not matter
	s.busy(s.New(s), s.key)
	s.release(lock)
	s.release(s.try(s.New(s), s.key))
}

type ctxKey struct{}

func (s *suite) context() {
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), ctxKey{}, "value"), patience)
	lock, err := s.New(s).TryAcquire(ctx, s.key)
	if err != nil {
		s.Fatal(err)
	}
	cancel()
	held := lock.Context()
	if _, ok := held.Deadline(); ok || held.Err() != nil || held.Value(ctxKey{}) != "value" {
		s.Errorf("the lock's context: %v", held)
	}
	child, stop := context.WithCancel(held)
	defer stop()
	s.release(lock)
	Done(s, held, sqllock.ErrReleased)
	Done(s, child, sqllock.ErrReleased)
}

func (s *suite) loss() {
	l := s.New(s)
	lock := s.acquire(l, s.key)
	s.Lose(s, s.key)
	Done(s, lock.Context(), sqllock.ErrLost)
	for range 2 {
		if err := lock.Release(); !errors.Is(err, sqllock.ErrLost) {
			s.Errorf("Release after the loss: %v", err)
		}
	}
	s.release(s.acquire(l, s.key)) // the locker goes on
}

// Whoever of them comes first, the holder is not told that all was well after others could have had the key.
func (s *suite) lossRace() {
	for range 5 {
		lock := s.acquire(s.New(s), s.key)
		s.Lose(s, s.key)
		if err := lock.Release(); !errors.Is(err, sqllock.ErrLost) {
			s.Fatalf("Release: %v", err)
		}
	}
}

func (s *suite) run() {
	a, b := s.New(s), s.New(s)
	ran, err := sqllock.Run(s.ctx(), a, s.key, func(ctx context.Context) error {
		ran, err := sqllock.Run(ctx, b, s.key, func(context.Context) error {
			s.Error("two jobs at a time")
			return nil
		})
		if ran || err != nil {
			s.Errorf("beside another: %v, %v", ran, err)
		}
		return ctx.Err()
	})
	if !ran || err != nil {
		s.Errorf("Run: %v, %v", ran, err)
	}
	s.release(s.try(b, s.key))
}

func (s *suite) runFails() {
	mine := errors.New("the job's")
	ran, err := sqllock.Run(s.ctx(), s.New(s), s.key, func(context.Context) error { return mine })
	if !ran || err != mine { //nolint:errorlint // the very one
		s.Errorf("Run: %v, %v", ran, err)
	}
	s.release(s.try(s.New(s), s.key))
}

func (s *suite) runPanics() {
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				s.Errorf("recovered %v", v)
			}
		}()
		sqllock.Run(s.ctx(), s.New(s), s.key, func(context.Context) error { panic("boom") })
	}()
	s.release(s.try(s.New(s), s.key))
	var gone sync.WaitGroup
	gone.Go(func() {
		sqllock.Run(s.ctx(), s.New(s), s.key, func(context.Context) error { runtime.Goexit(); return nil })
	})
	gone.Wait()
	s.release(s.try(s.New(s), s.key))
}

func (s *suite) runLoses() {
	mine := errors.New("the job's")
	for _, result := range []error{nil, mine} {
		ran, err := sqllock.Run(s.ctx(), s.New(s), s.key, func(ctx context.Context) error {
			s.Lose(s, s.key)
			Done(s, ctx, sqllock.ErrLost)
			return result
		})
		if !ran || !errors.Is(err, sqllock.ErrLost) || result != nil && !errors.Is(err, result) {
			s.Errorf("a job that lost its lock and returned %v: %v, %v", result, ran, err)
		}
	}
}

func (s *suite) runContext() {
	ctx, cancel := context.WithCancel(context.WithValue(s.ctx(), ctxKey{}, "value"))
	ran, err := sqllock.Run(ctx, s.New(s), s.key, func(ctx context.Context) error {
		if ctx.Value(ctxKey{}) != "value" {
			s.Error("no values")
		}
		cancel() // the job's own
		Done(s, ctx, context.Canceled)
		s.busy(s.New(s), s.key) // it is the job that ends the lock
		return nil
	})
	if !ran || err != nil {
		s.Errorf("Run: %v, %v", ran, err)
	}
	s.release(s.try(s.New(s), s.key))
}

func (s *suite) forgotten() {
	l := s.New(s)
	func() { s.acquire(l, s.key) }()
	for deadline := time.Now().Add(patience); ; {
		runtime.GC()
		lock, err := l.TryAcquire(s.ctx(), s.key)
		if err == nil {
			s.release(lock)
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("a dropped lock is still held: %v", err)
		}
	}
}

func (s *suite) onlyTheContext() {
	ctx := func() context.Context {
		ctx, cancel := context.WithCancel(s.acquire(s.New(s), s.key).Context())
		s.Cleanup(cancel)
		return ctx
	}()
	for range 5 {
		runtime.GC()
		runtime.Gosched()
		s.busy(s.New(s), s.key)
	}
	if ctx.Err() != nil {
		s.Error(context.Cause(ctx))
	}
	runtime.KeepAlive(ctx)
	s.Lose(s, s.key)
	Done(s, ctx, sqllock.ErrLost)
}

func (s *suite) shared() {
	if s.Shared == nil {
		s.Skip("no shared locks")
	}
	a, b := s.New(s), s.New(s)
	first := s.try(s.Shared(a), s.key)
	second := s.try(s.Shared(a), s.key) // of the same locker
	third := s.acquire(s.Shared(b), s.key)
	s.busy(a, s.key)
	s.busy(b, s.key)
	s.release(first)
	s.release(third)
	s.busy(a, s.key)
	s.busy(b, s.key)
	lock := s.after(func() { s.release(second) }, func() *sqllock.Lock { return s.acquire(a, s.key) })
	s.busy(s.Shared(b), s.key)
	s.release(lock)
}

// To a server one session is one holder, to which it grants everything.
func (s *suite) sharedBesideExclusive() {
	if s.Shared == nil {
		s.Skip("no shared locks")
	}
	a := s.New(s)
	lock := s.try(a, s.key)
	s.busy(s.Shared(a), s.key)
	lock = s.after(func() { s.release(lock) }, func() *sqllock.Lock { return s.acquire(s.Shared(a), s.key) })
	s.busy(a, s.key)
	s.release(lock)
}

func (s *suite) keys() {
	a, b := s.New(s), s.New(s)
	id := -1<<63 | s.key.Int64() // a negative number of this test's own
	for _, k := range []sqllock.Key{
		sqllock.Name(s.Name() + strings.Repeat("x", 1<<16)), sqllock.Namespace(s.Name()).Name(""), sqllock.Name(s.Name() + "'; \x00 é \\"),
		sqllock.Namespace("Café").Name(s.Name()), sqllock.ID(id), sqllock.Pair(int32(id>>32), int32(id)),
	} {
		lock := s.try(a, k)
		s.busy(b, k)
		s.release(lock)
		s.release(s.acquire(b, k))
	}
	if s.SameKeys {
		lock := s.try(a, s.key)
		s.busy(a, sqllock.ID(s.key.Int64()))
		s.busy(b, sqllock.ID(s.key.Int64()))
		s.release(s.try(a, sqllock.Pair(int32(s.key.Int64()>>32), int32(s.key.Int64())))) // another space
		s.release(lock)
	}
}

// crowd lets many goroutines of several lockers contend for one key, in every way.
func (s *suite) crowd() {
	lockers := []sqllock.Locker{s.New(s), s.New(s)}
	var inside, entered atomic.Int64
	enter := func(context.Context) error {
		if n := inside.Add(1); n != 1 {
			return fmt.Errorf("%d at a time", n)
		}
		entered.Add(1)
		runtime.Gosched()
		inside.Add(-1)
		return nil
	}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			for range 5 {
				lock := s.acquire(lockers[i%2], s.key)
				if err := enter(lock.Context()); err != nil {
					s.Error(err)
				}
				s.release(lock)
				if _, err := sqllock.Run(s.ctx(), lockers[i%2], s.key, enter); err != nil {
					s.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := entered.Load(); n < 60 {
		s.Errorf("entered %d times", n)
	}
}
