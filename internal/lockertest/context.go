package lockertest

import (
	"context"

	"github.com/sqllock/sqllock"
)

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
