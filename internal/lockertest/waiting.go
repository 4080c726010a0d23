package lockertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sqllock/sqllock"
)

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
