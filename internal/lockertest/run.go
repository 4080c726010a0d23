package lockertest

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/sqllock/sqllock"
)

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
