package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqllock/sqllock"
)

// A Run is one grant of one slot: what the job is told.
type Run struct {
	Job  string
	Slot time.Time // as the caller gave it; in UTC from Recover
	// Attempt counts the grants of this slot, from 1.
	Attempt int
	// Token is a fencing token: one counter for each job, which grows with every grant of any slot. A superseded runner
	// cannot be stopped from sending one more write, so let the resource that it writes to refuse it:
	//
	//	UPDATE balance SET amount = ?, token = ? WHERE id = ? AND token <= ?   -- no row: superseded, stop
	//
	// It is as durable as the ledger's table. After a failover to a standby that lacked the latest rows tokens repeat: it
	// protects where replication is synchronous, or where the resource is in the same database and fails over with it.
	Token int64

	key string // the slot as the table has it
}

// An Outcome says what [Ledger.Do] did.
type Outcome int

const (
	// NotRun comes with an error: the job was not run.
	NotRun Outcome = iota
	// Ran: the job was run, and the error, if any, is its own, or says that its end could not be noted or was not protected.
	Ran
	// HeldElsewhere: another runner has the job's lock, for this slot or for another one. Nothing is noted.
	HeldElsewhere
	// AlreadySucceeded: the slot's row says that it is done, or was claimed.
	AlreadySucceeded
	// AttemptsUsedUp: the slot has failed, or been cut off, as often as [WithAttempts] allows.
	AttemptsUsedUp
)

// String returns the outcome in words.
func (o Outcome) String() string {
	words := [...]string{"not run", "ran", "held elsewhere", "already succeeded", "attempts used up"}
	if o < 0 || int(o) >= len(words) {
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
	return words[o]
}

// Once runs fn for a slot of a job unless it has been run: it is [Ledger.Do] for those who need not know why it was not.
// ran is false, and err nil, if another runner holds the job's lock, if the slot has succeeded, and if its attempts are used up.
func (l *Ledger) Once(ctx context.Context, job string, slot time.Time, fn func(ctx context.Context, run *Run) error) (ran bool, err error) {
	outcome, err := l.Do(ctx, job, slot, fn)
	return outcome == Ran, err
}

// Do runs fn for a slot of a job unless it has been run, and says what it did. slot is the time that the schedule says, not
// the time that it is: replicas agree on the first. An instant is one slot, to the microsecond, in whatever location it is
// given. It never waits: a slot that is due while another slot of the job runs is skipped, and leaves no row.
//
// The row says "running" before fn is called, and "succeeded" or "failed" afterwards. A runner that crashes leaves "running"
// behind; whoever holds the lock and sees that knows that the runner is superseded, and takes the slot over as the next attempt.
// So fn may run again after a crash or an error: use Job and Slot as idempotency key for what it does, and [Run.Token] as fence.
//
// fn's context has ctx's values and end, and ends when the lock is lost. Do waits for fn to return. If the lock was lost,
// Do's error is [sqllock.ErrLost], also if fn returned nil, and the row's error says so. The end is noted, for up to 10 seconds,
// also when ctx is over. A panic of fn is noted as failure and passes through.
//
// Do costs 1 statement where the slot is done, 2 where the lock is held elsewhere, and 5 where it runs fn. The locker
// looks at a connection before its first lock: once more where it has held none for a second.
func (l *Ledger) Do(ctx context.Context, job string, slot time.Time, fn func(ctx context.Context, run *Run) error) (Outcome, error) {
	t, err := l.readyFor(ctx, l.db, job, slot)
	if err != nil {
		return NotRun, err
	}
	o := once{l: l, t: t, job: job, key: t.key(slot), slot: slot.Truncate(time.Microsecond), fn: fn}
	outcome, err := o.do(ctx)
	return outcome, at(job, slot, err)
}

// once is one call of Do.
type once struct {
	l     *Ledger
	t     *table
	job   string
	key   string // the slot as the table has it
	slot  time.Time
	fn    func(ctx context.Context, run *Run) error
	known bool // only if there is a row: Recover's
}

// do looks before it takes the lock: that spares it where the slot is done. What it sees may be outdated once it has the
// lock, so that every change names what was seen, and fails if that is no longer so.
func (o *once) do(ctx context.Context) (outcome Outcome, err error) {
	if o.t.bare {
		return NotRun, unsupported("table %s has only the columns of Claim: call Ledger.Create", legible(o.l.cfg.table))
	}
	o.l.next("look")
	seen, err := o.t.look(ctx, o.l.db, o.job, o.key, o.slot)
	if err != nil {
		return NotRun, err
	}
	if outcome := o.verdict(seen); outcome != NotRun && !o.cutOff(seen) {
		return outcome, nil
	}
	o.l.next("lock")
	lock, err := o.l.locker.TryAcquire(ctx, o.t.lockKey(o.job))
	if errors.Is(err, sqllock.ErrHeld) {
		return HeldElsewhere, nil
	}
	if err != nil {
		return NotRun, err
	}
	defer func() {
		o.l.next("release")
		err = join(err, lock.Release())
		o.l.next("end")
	}()
	run, outcome, err := o.grant(ctx, seen)
	if run == nil {
		return outcome, err
	}
	return o.run(ctx, lock, run)
}

// join adds the second error, unless the first already tells it.
func join(err, more error) error {
	switch {
	case err == nil:
		return more
	case more == nil, errors.Is(err, sqllock.ErrLost) && errors.Is(more, sqllock.ErrLost):
		return err
	}
	return errors.Join(err, more)
}

// verdict says why a slot need not be run; NotRun if it must.
func (o *once) verdict(seen row) Outcome {
	switch {
	case seen.status == "" && o.known: // pruned meanwhile
		return AlreadySucceeded
	case seen.status == "":
		return NotRun
	case seen.status == StatusSucceeded || seen.status == StatusClaimed:
		return AlreadySucceeded
	case seen.attempt >= o.l.cfg.attempts:
		return AttemptsUsedUp
	}
	return NotRun
}

// cutOff: the runner of the last attempt was never heard of again, or still runs.
func (o *once) cutOff(seen row) bool {
	return seen.status == StatusRunning && o.verdict(seen) == AttemptsUsedUp
}

// grant makes the row ours, with the job's next token. Whoever calls it holds the lock.
func (o *once) grant(ctx context.Context, seen row) (*Run, Outcome, error) {
	const tries = 10 // the first look may be outdated; more if a runner that has lost the lock, or the server, interferes
	for range tries {
		if outcome := o.verdict(seen); outcome != NotRun {
			return nil, outcome, o.bury(ctx, seen)
		}
		run := &Run{Job: o.job, Slot: o.slot, Attempt: seen.attempt + 1, Token: seen.top + 1, key: o.key}
		o.l.next("insert")
		granted, err := o.write(ctx, run, seen)
		if err != nil {
			return nil, NotRun, err
		}
		if granted {
			return run, Ran, nil
		}
		if seen, err = o.t.look(ctx, o.l.db, o.job, o.key, o.slot); err != nil {
			return nil, NotRun, err
		}
	}
	return nil, NotRun, lost("others write to the job's rows")
}

func (o *once) write(ctx context.Context, run *Run, seen row) (bool, error) {
	if seen.status == "" {
		return o.t.insert(ctx, o.l.db, run, seen, o.l.cfg.host)
	}
	return o.t.takeOver(ctx, o.l.db, run, seen, o.l.cfg.host)
}

// bury notes that the runner of the last attempt was cut off.
func (o *once) bury(ctx context.Context, seen row) error {
	if !o.cutOff(seen) {
		return nil
	}
	_, err := o.t.finish(ctx, o.l.db, o.job, o.key, seen.token, StatusFailed, "the run was cut off, and the attempts are used up")
	return err
}
