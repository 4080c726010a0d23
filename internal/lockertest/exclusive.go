package lockertest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sqllock/sqllock"
)

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
