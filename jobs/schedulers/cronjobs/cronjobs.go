// Package cronjobs runs the jobs of a [github.com/robfig/cron/v3] scheduler once, however many replicas have one.
//
//	c := cron.New(cron.WithLocation(time.UTC))
//	_, err := cronjobs.Add(ctx, c, ledger, "0 0 * * *", "daily-settlement", settle, nil)
//	c.Start()
package cronjobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs"
)

// A Report is told what became of a tick: the slot, what [jobs.Ledger.Do] did, and the joined errors of it and of Recover.
// It is called in the tick's own goroutine.
type Report func(slot time.Time, outcome jobs.Outcome, err error)

// Add adds a job to c: at each tick, one of the replicas runs fn. It first finishes the slots that were left behind
// ([jobs.Ledger.Recover]), then runs its own. The slot is the time that the schedule says, whatever the replicas' clocks
// say: they need the same spec and the same location. fn's context is done when ctx is, or the lock is lost; cancel ctx
// before you wait for the context that cron's Stop returns. A nil report logs errors to log/slog.
//
// "@every 5m" is refused with [sqllock.ErrUnsupported], because it counts from the start of each process: use "*/5 * * * *". A tick that
// comes while the job still runs, here or elsewhere, is skipped ([jobs.HeldElsewhere]). On the day the clocks go forward cron
// skips a time that does not exist; on the day they go back, an hourly job has both of the hours that are called the same.
func Add(ctx context.Context, c *cron.Cron, l *jobs.Ledger, spec, job string, fn func(ctx context.Context, run *jobs.Run) error, report Report) (cron.EntryID, error) {
	if report == nil {
		report = logged(job)
	}
	t := &ticker{known: make(chan struct{})}
	id, err := c.AddFunc(spec, func() {
		slot := t.slot(c)
		outcome, err := l.Catch(ctx, job, slot, fn)
		report(slot, outcome, err)
	})
	if err != nil {
		return 0, fmt.Errorf("cronjobs: job %s: %w", job, err)
	}
	t.id = id
	close(t.known)
	if _, ok := c.Entry(id).Schedule.(cron.ConstantDelaySchedule); ok {
		c.Remove(id)
		return 0, fmt.Errorf("%w: cronjobs: job %s: %q counts from the start of each process, so that replicas have no slot in common: use a cron expression, such as */5 * * * *",
			sqllock.ErrUnsupported, job, spec)
	}
	return id, nil
}

func logged(job string) Report {
	return func(slot time.Time, outcome jobs.Outcome, err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			slog.Warn("cronjobs: "+err.Error(), "job", job, "slot", slot, "outcome", outcome.String())
		}
	}
}

// ticker knows which entry's tick it is.
type ticker struct {
	known chan struct{} // closed when id is
	id    cron.EntryID
}

// slot is when the schedule wanted this tick: cron notes that before it answers.
func (t *ticker) slot(c *cron.Cron) time.Time {
	<-t.known
	return c.Entry(t.id).Prev
}
