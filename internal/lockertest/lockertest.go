// Package lockertest is the conformance suite of everything that calls itself a [sqllock.Locker]: the real ones, on every
// server and driver, and the in-memory one that users test with.
package lockertest

import (
	"context"
	"errors"
	"strings"
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
		if c.hears && s.Deaf || s.Shared == nil && strings.HasPrefix(c.name, "Shared") {
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
