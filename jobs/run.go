package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqllock/sqllock"
)

// finishLimit bounds how long the end of a run is tried to be noted.
const finishLimit = 10 * time.Second

// maxError is how much of an error's text the table keeps, in bytes.
const maxError = 2000

// run calls the job under the lock, and notes its end before the lock is released.
func (o *once) run(ctx context.Context, lock *sqllock.Lock, run *Run) (outcome Outcome, err error) {
	ctx, cancel := under(ctx, lock)
	defer cancel()
	panicked := true
	defer func() {
		p := any(nil)
		if panicked {
			p = recover()
			err = fmt.Errorf("panic: %v", p) // nil: it has ended its goroutine
		}
		err = o.note(lock, run, err)
		if p != nil {
			panic(p) // the job's own, which is the caller's to see
		}
	}()
	o.l.next("run")
	if err = context.Cause(ctx); err == nil {
		err = o.fn(ctx, run)
	}
	panicked = false
	return Ran, err
}

// under returns a context that has the values and the end of ctx, and ends with the lock.
func under(ctx context.Context, lock *sqllock.Lock) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(lock.Context(), func() { cancel(context.Cause(lock.Context())) })
	return ctx, func() {
		stop()
		cancel(sqllock.ErrReleased)
	}
}

// note writes down how the run ended, and adds what stands in the way to the error of the job.
func (o *once) note(lock *sqllock.Lock, run *Run, err error) error {
	o.l.next("finish")
	status, text := StatusSucceeded, ""
	if err != nil {
		status, text = StatusFailed, err.Error()
	}
	if cause := context.Cause(lock.Context()); cause != nil {
		text = joinText(text, "the lock was lost during the run")
		err = join(err, cause)
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	ok, e := o.t.finish(ctx, o.l.db, run.Job, run.key, run.Token, status, clean(text, maxError))
	switch {
	case e != nil:
		return errors.Join(err, fmt.Errorf("the run's end (%s) could not be noted, so that the slot will be run again: %w", status, e))
	case !ok:
		return join(err, lost("another runner has taken the slot over"))
	}
	return err
}

func joinText(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
