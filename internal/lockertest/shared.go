package lockertest

import (
	"github.com/sqllock/sqllock"
)

func (s *suite) shared() {
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
	a := s.New(s)
	lock := s.try(a, s.key)
	s.busy(s.Shared(a), s.key)
	lock = s.after(func() { s.release(lock) }, func() *sqllock.Lock { return s.acquire(s.Shared(a), s.key) })
	s.busy(a, s.key)
	s.release(lock)
}
