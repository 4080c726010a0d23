package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sqllock/sqllock/examples/internal/engine"
	"github.com/sqllock/sqllock/jobs"
)

const job = "daily-settlement"

// A replica is one process of the service. Here its scheduler is the program that started it: each line on its
// input is a tick, and each line on its output says how it fares.
type replica struct {
	ledger *jobs.Ledger
}

func runReplica(ctx context.Context, name, dsn string) error {
	db, locker, err := engine.Open(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	r := replica{jobs.NewLedger(db, locker, jobs.WithHost(name))}
	if err := r.ledger.Create(ctx); err != nil {
		return err
	}
	say("ready")
	for ticks := bufio.NewScanner(os.Stdin); ticks.Scan(); {
		how, day, _ := strings.Cut(ticks.Text(), " ")
		slot, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return err
		}
		if how == "alone" {
			err = r.midnight(ctx, slot)
		} else {
			err = r.midnightOnce(ctx, slot)
		}
		if err != nil {
			say("error: " + err.Error())
		}
	}
	return nil
}

func say(what string) { fmt.Println(what) }

// midnight is what every replica does when nothing keeps it from it.
func (r replica) midnight(ctx context.Context, slot time.Time) error {
	if err := r.settle(ctx, &jobs.Run{Slot: slot}); err != nil {
		return err
	}
	say(sent)
	return nil
}

// midnightOnce first finishes what a crashed replica has left behind, and then runs the slot, unless another replica does or did.
func (r replica) midnightOnce(ctx context.Context, slot time.Time) error {
	if _, err := r.ledger.Recover(ctx, job, r.settle); err != nil {
		return err
	}
	outcome, err := r.ledger.Do(ctx, job, slot, r.settle)
	if err != nil {
		return err
	}
	if outcome == jobs.Ran {
		say(sent)
	} else {
		say("done: skipped, " + outcome.String())
	}
	return nil
}

// settle aggregates the invoices, which takes a while, and sends the e-mail.
func (r replica) settle(ctx context.Context, run *jobs.Run) error {
	if run.Attempt > 1 {
		say(fmt.Sprintf("takes over %s, attempt %d", run.Slot.Format(time.DateOnly), run.Attempt))
	} else {
		say("settles " + run.Slot.Format(time.DateOnly))
	}
	select {
	case <-time.After(300 * time.Millisecond):
	case <-ctx.Done(): // the lock is lost: stop
		return context.Cause(ctx)
	}
	return sendMail(run.Slot.Format(time.DateOnly))
}
