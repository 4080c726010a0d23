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
	if t.bare {
		return 0, unsupported("table %s keeps no history: call Ledger.Create", l.cfg.table)
	}
	left, err := t.records(ctx, l.db, job, "{job} = ? AND (status = 'running' OR status = 'failed' AND attempt < ?) ORDER BY {key}", job, l.cfg.attempts)
	if err != nil {
		return 0, err
	}
	for _, r := range left {
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

// Catch is Recover and then Do: what a scheduler's adapter calls at each tick.
func (l *Ledger) Catch(ctx context.Context, job string, slot time.Time, fn func(ctx context.Context, run *Run) error) (Outcome, error) {
	_, err := l.Recover(ctx, job, fn)
	outcome, e := l.Do(ctx, job, slot, fn)
	return outcome, errors.Join(err, e)
}
