package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqllock/sqllock"
)

// Recover runs fn for the slots of the job that were left behind: those that were running when their process died, and
// those that failed, have attempts left and have rested ([WithRetryDelay]). The oldest comes first, each is an attempt
// as in [Ledger.Once], all under one hold of the lock. It returns how many succeeded, and the errors of those that did not,
// joined. If the job is running elsewhere it returns 0 and an error that is [ErrSkipped] and [sqllock.ErrHeld], without waiting.
//
// A crash is found by whoever comes next. The next tick of a schedule brings another slot, so call Recover before each
// new slot, as the adapters below jobs/schedulers do, and at the start of a program. It costs one statement if nothing
// was left behind.
//
// A slot whose last attempt ended in a crash is marked as failed, and is no error.
func (l *Ledger) Recover(ctx context.Context, job string, fn func(ctx context.Context, run *Run) error) (n int, err error) {
	t, _, err := l.ready(ctx, l.db, job, time.Unix(0, 0))
	if err != nil || t.bare {
		return 0, err
	}
	behind, err := l.behind(ctx, t, job)
	if err != nil || len(behind) == 0 {
		return 0, err
	}
	lock, err := behind[0].lock(ctx)
	if err != nil {
		return 0, err
	}
	defer lock.Release() // what it returns does not matter: see record
	for _, a := range behind {
		e := a.again(ctx, lock, fn)
		switch {
		case e == nil:
			n++
		case !errors.Is(e, ErrSkipped):
			err = errors.Join(err, e)
		}
		if errors.Is(e, sqllock.ErrLost) || ctx.Err() != nil {
			break
		}
	}
	return n, err
}

// again looks at a slot under the lock, and runs it if it still is to be run.
func (a *attempt) again(ctx context.Context, lock *sqllock.Lock, fn func(context.Context, *Run) error) error {
	if err := a.look(ctx); err != nil {
		return err
	}
	if err := a.begin(ctx); err != nil {
		return err
	}
	return a.perform(ctx, lock, fn)
}

// behind lists the slots that may have been left behind: one that is running may also be alive, which the lock tells.
func (l *Ledger) behind(ctx context.Context, t *table, job string) (all []*attempt, err error) {
	rows, err := l.db.QueryContext(ctx, t.sql(behindSQL), job, l.cfg.attempts)
	if err != nil {
		return nil, fmt.Errorf("jobs: look for what %s has left behind: %w", job, err)
	}
	defer rows.Close()
	for rows.Next() {
		a := &attempt{l: l, t: t, run: Run{Job: job}}
		var slot *string
		if err := rows.Scan(&a.at, &slot); err != nil {
			return nil, err
		}
		if a.run.Slot, err = t.read(a.at, slot); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, rows.Err()
}
