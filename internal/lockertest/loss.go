package lockertest

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/sqllock/sqllock"
)

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
