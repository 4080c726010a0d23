package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/sqllock/sqllock"
)

// Recover runs the slots of a job that were left behind, the oldest first, and returns how many it ran: those whose
// runner crashed, and those that failed and have attempts left. It never starts a slot that has no row. Call it before each new slot,
// as the adapters do, because the next tick of a schedule carries another slot: it costs 1 statement if nothing was left behind.
//
// fn is called for each slot as [Ledger.Do] does. A slot that fails does not keep the others from being run: the errors
// are joined. Recover stops, and returns what it has, when ctx ends or another runner holds the job's lock.
func (l *Ledger) Recover(ctx context.Context, job string, fn func(ctx context.Context, run *Run) error) (n int, err error) {
	t, err := l.ready(ctx, l.db, job)
	if err != nil {
		return 0, err
	}
	return l.recover(ctx, t, job, "", fn)
}

// Tick is Recover of the job's other slots, and then Do of this one: what a scheduler's adapter calls. The outcome is this slot's, the
// error may be of any.
func (l *Ledger) Tick(ctx context.Context, job string, slot time.Time, fn func(ctx context.Context, run *Run) error) (Outcome, error) {
	t, err := l.readyFor(ctx, l.db, job, slot)
	if err != nil {
		return NotRun, err
	}
	_, err = l.recover(ctx, t, job, t.key(slot), fn)
	outcome, e := l.Do(ctx, job, slot, fn)
	return outcome, errors.Join(err, e)
}

// recover leaves the slot with the key except alone.
func (l *Ledger) recover(ctx context.Context, t *table, job, except string, fn func(ctx context.Context, run *Run) error) (n int, err error) {
	if t.bare {
		return 0, unsupported("table %s keeps no history: call Ledger.Create", legible(l.cfg.table))
	}
	left, err := t.records(ctx, l.db, job, "{job} = ? AND (status = 'running' OR status = 'failed' AND attempt < ?) ORDER BY {key}", job, l.cfg.attempts)
	if err != nil {
		return 0, err
	}
	for _, r := range left {
		if r.key == except {
			continue
		}
		o := once{l: l, t: t, job: job, key: r.key, slot: r.Slot, fn: fn, known: true}
		outcome, e := o.do(ctx)
		err = errors.Join(err, at(job, r.Slot, e))
		if outcome == Ran {
			n++
		}
		if outcome == HeldElsewhere || outcome == NotRun || ctx.Err() != nil || errors.Is(e, sqllock.ErrLost) {
			break
		}
	}
	return n, err
}
