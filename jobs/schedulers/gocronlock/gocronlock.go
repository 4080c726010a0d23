// Package gocronlock lets the schedulers of replicas that use [github.com/go-co-op/gocron/v2] agree: by a leader
// ([Elector]), or by a lock for each job ([Locker]).
//
// gocron tells neither which slot of a schedule it runs, so that a second run after a fast first one is stopped by neither
// alone: in the job, call [jobs.Ledger.Once] with the slot that your schedule says.
package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-co-op/gocron/v2"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs"
)

var (
	_ gocron.Elector = (*Elector)(nil)
	_ gocron.Locker  = (*Locker)(nil)
)

// ErrNotLeader says that another replica leads, or nobody yet.
var ErrNotLeader = errors.New("gocronlock: this replica does not lead")

// An Elector is for gocron.WithDistributedElector: only the jobs of the leading replica run. It is safe for concurrent use.
type Elector struct {
	leads  atomic.Bool
	cancel context.CancelFunc
	end    chan struct{}
	err    error // why the campaign ended; set before end is closed
}

// NewElector starts to campaign for key with [jobs.Lead], whose options it takes, until ctx ends or Close is called.
// A job that runs when the leadership ends is not stopped by gocron: let it use [jobs.Ledger.Once], whose fence does.
func NewElector(ctx context.Context, l sqllock.Locker, key sqllock.Key, opts ...jobs.LeadOption) *Elector {
	ctx, cancel := context.WithCancel(ctx)
	e := &Elector{cancel: cancel, end: make(chan struct{})}
	go func() {
		defer close(e.end)
		e.err = jobs.Lead(ctx, l, key, e.lead, opts...)
	}()
	return e
}

func (e *Elector) lead(ctx context.Context) error {
	e.leads.Store(true)
	defer e.leads.Store(false)
	<-ctx.Done()
	return context.Cause(ctx)
}

// IsLeader implements gocron.Elector: nil if this replica leads. Otherwise the error is [ErrNotLeader], with the reason if the
// campaign has ended. It sends nothing.
func (e *Elector) IsLeader(context.Context) error {
	if e.leads.Load() {
		return nil
	}
	select {
	case <-e.end:
		return fmt.Errorf("%w: %w", ErrNotLeader, e.err)
	default:
		return ErrNotLeader
	}
}

// Close ends the campaign and gives the leadership up. It returns when that is done; calling it again does nothing.
func (e *Elector) Close() {
	e.cancel()
	<-e.end
}

// A Locker is for gocron.WithDistributedLocker: a job that runs in one replica does not start in another meanwhile. It knows
// the job's name (set it with gocron.WithName) and not the slot, so that a replica whose clock is late runs a fast job again.
type Locker struct{ l sqllock.Locker }

// NewLocker returns a Locker whose keys are gocron's, in the namespace "gocron".
func NewLocker(l sqllock.Locker) *Locker { return &Locker{l} }

// Lock implements gocron.Locker. It does not wait: [sqllock.ErrHeld].
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lock, err := l.l.TryAcquire(ctx, sqllock.Namespace("gocron").Name(key))
	if err != nil {
		return nil, err
	}
	return held{lock}, nil
}

type held struct{ *sqllock.Lock }

// Unlock ignores the context, which is over when the scheduler shuts down: Release has a bound of its own.
func (h held) Unlock(context.Context) error { return h.Release() }
