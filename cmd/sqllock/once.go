package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs"
)

// slotLayouts are how a slot can be written, in local time where it says no other.
var slotLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"}

func parseSlot(text string) (time.Time, error) {
	for _, layout := range slotLayouts {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usage(fmt.Sprintf("--slot %s is no time: give one such as 2026-12-02, 2026-12-02T15:04 or 2026-12-02T15:04:05+01:00", echo(text)))
}

func (f *runFlags) checkOnce() error {
	if !f.once {
		if f.slot != "" {
			return usage("--slot goes with --once")
		}
		return nil
	}
	switch {
	case f.slot == "":
		return usage("--once wants a --slot, the time for which the run is due: $(date +%F) for a daily job")
	case f.name == "" || f.namespace != "":
		return usage("--once wants the job's name in --key, and no namespace")
	case f.shared:
		return usage("--once is exclusive: leave out --shared")
	case f.wait.given:
		return usage("--once does not wait: leave out -w")
	}
	_, err := parseSlot(f.slot)
	return err
}

// runOnce runs the command as one attempt at the slot.
func (a *app) runOnce(ctx context.Context, f *runFlags, db *sql.DB, l sqllock.Locker, argv []string, signals <-chan os.Signal) error {
	slot, err := parseSlot(f.slot)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx, signals)
	o := &onceRun{app: a, flags: f, argv: argv, signals: signals, started: stop}
	ledger := jobs.NewLedger(db, l, jobs.WithTable(f.table))
	outcome, err := ledger.Do(ctx, f.name, slot, o.run)
	if errors.Is(err, jobs.ErrNoTable) && !o.ran {
		if err = ledger.Create(ctx); err == nil {
			outcome, err = ledger.Do(ctx, f.name, slot, o.run)
		}
	}
	if !o.ran {
		stop()
	}
	return o.exit(ctx, outcome, err)
}

// A onceRun is the command as a ledger's job.
type onceRun struct {
	*app
	flags   *runFlags
	argv    []string
	signals <-chan os.Signal
	started func() // signals are the command's from now on

	ran  bool
	code int
	err  error
}

var errFailed = errors.New("the command failed")

func (o *onceRun) run(ctx context.Context, run *jobs.Run) error {
	o.ran = true
	o.started()
	env := []string{"SQLLOCK_KEY=" + run.Job, "SQLLOCK_SLOT=" + run.Slot.Format(time.RFC3339), "SQLLOCK_TOKEN=" + strconv.FormatInt(run.Token, 10)}
	o.code, o.err = o.supervise(o.flags, ctx, o.argv, env, o.signals)
	switch {
	case o.err != nil:
		return o.err
	case o.code != 0:
		return fmt.Errorf("%w: exit code %d", errFailed, o.code)
	}
	return nil
}

// exit says how to end, after what Do returned.
func (o *onceRun) exit(ctx context.Context, outcome jobs.Outcome, err error) error {
	var got gotSignal
	switch {
	case o.err != nil:
		return o.err
	case errors.Is(err, errFailed) && !errors.Is(err, sqllock.ErrLost):
		return &exit{code: o.code}
	case err != nil && !o.ran && errors.As(context.Cause(ctx), &got):
		return &exit{code: 128 + int(got)}
	case err != nil:
		return err
	case outcome == jobs.AttemptsUsedUp:
		return &exit{exUnavailable, fmt.Sprintf("%s, slot %s: %s: see sqllock history", o.flags.name, o.flags.slot, outcome)}
	case outcome != jobs.Ran:
		if !o.flags.quiet {
			fmt.Fprintf(o.app.err, "%s, slot %s: %s\n", printable(o.flags.name), printable(o.flags.slot), outcome)
		}
		return &exit{code: o.flags.conflict}
	}
	return nil
}
