package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/native"
)

// Once runs fn for a slot of the job unless the slot has succeeded, and says whether it ran fn. It never waits for
// another replica. If it does not run fn it returns false and an error that is [ErrSkipped], and says why: [sqllock.ErrHeld]
// (a replica is running this slot or another one of the job), [ErrSucceeded], [ErrUsedUp], [ErrNotYet]. Any other error beside
// false is a failure before the run; what Once was called for is then still to be done.
//
// While fn runs, Once holds the session lock of the job, and the slot's row says "running", with host, attempt and time.
// Afterwards the row says "succeeded", or "failed" with the error that fn returned, which Once returns too. All times
// are the server's. If the process dies, the row stays "running"; whoever gets the lock and sees such a row knows that
// its runner is superseded, and takes over as the next attempt: Once for the same slot, or [Ledger.Recover].
//
// fn's context has the values and the end of ctx, and ends when the lock is lost: fn must then stop. The row says that
// the lock was lost, even if fn returned nil, and Once returns [sqllock.ErrLost]. If another replica has taken over by
// then, the row is its, and only the return value tells. fn can fence its writes with [Run.Token]. A panic of fn passes
// through; the row says so.
//
// A slot that is due while an earlier one of the job still runs is skipped with ErrHeld. It leaves no row, so that Recover
// does not make up for it: call Once for it again later if it must not be left out.
//
// On the adopted two-column table a slot is a date, that of slot in its own location, slot.Location(). A second slot
// on one date is refused with [ErrTable].
//
// Statements: one if the slot is done, two if the lock is held, five around fn if it runs, each a transaction of its own. If
// the winner finishes between the two looks of a loser, the loser needs five.
func (l *Ledger) Once(ctx context.Context, job string, slot time.Time, fn func(ctx context.Context, run *Run) error) (ran bool, err error) {
	t, at, err := l.ready(ctx, l.db, job, slot)
	if err != nil {
		return false, err
	}
	if t.bare {
		return false, fmt.Errorf("%w: %s has only the columns of a claim: call Ledger.Create, which adds the others", ErrTable, t.name)
	}
	a := &attempt{l: l, t: t, at: at, run: Run{Job: job, Slot: slot}}
	if err := a.look(ctx); err != nil { // before the lock: most replicas stop here, or at the lock
		return false, err
	}
	l.step("looked")
	lock, err := a.lock(ctx)
	if err != nil {
		return false, err
	}
	defer lock.Release() // what it returns does not matter: see record
	l.step("locked")
	if err := a.begin(ctx); err != nil {
		return false, err
	}
	l.step("begun")
	return true, a.perform(ctx, lock, fn)
}

// attempt is one attempt at a slot.
type attempt struct {
	l    *Ledger
	t    *table
	at   string // the slot, as the table has it
	run  Run
	seen row // what the slot had when it was looked at
}

// row is what a slot has. The zero row is none.
type row struct {
	status  string
	attempt int
	token   int64
	host    string
	started string
	slot    string        // exact, on the dated table
	age     time.Duration // since it was finished
	latest  int64         // the job's latest token
}

// lock takes the job's lock, or says who holds it.
func (a *attempt) lock(ctx context.Context) (*sqllock.Lock, error) {
	lock, err := a.l.locker.TryAcquire(ctx, a.l.Key(a.run.Job))
	if errors.Is(err, sqllock.ErrHeld) {
		return nil, skipped(a.run.Job, a.at, err)
	}
	return lock, err
}

// look reads the slot's row and says why it is not to be run.
func (a *attempt) look(ctx context.Context) error {
	var r row
	var status, host, started, slot sql.NullString
	var attempt, token, age sql.NullInt64
	err := a.l.db.QueryRowContext(ctx, a.t.sql(lookSQL), a.run.Job, a.run.Job, a.at).
		Scan(&status, &attempt, &token, &host, &started, &slot, &age, &r.latest)
	if err != nil {
		return fmt.Errorf("jobs: look at %s at %s: %w", a.run.Job, a.at, err)
	}
	r.status, r.host, r.started, r.slot = status.String, host.String, started.String, slot.String
	r.attempt, r.token, r.age = int(attempt.Int64), token.Int64, time.Duration(age.Int64)*time.Microsecond
	a.seen = r
	return a.refuse()
}

// refuse decides by the row. A row that says "running" is no reason: its runner may be dead, which the lock tells.
func (a *attempt) refuse() error {
	r := a.seen
	if a.t.dated && r.slot != "" && r.slot != exact(a.run.Slot) {
		return fmt.Errorf("%w: %s has one row a date, and that of %s at %s is the slot %s UTC, not %s UTC: a job with several slots a date needs a ledger on another table (WithTable)",
			ErrTable, a.t.name, a.run.Job, a.at, r.slot, exact(a.run.Slot))
	}
	var cause error
	switch {
	case r.status == "" || r.status == "running":
		return nil
	case r.status != "failed":
		cause = ErrSucceeded
	case r.attempt >= a.l.cfg.attempts:
		cause = fmt.Errorf("%w (%d)", ErrUsedUp, r.attempt)
	case r.age < a.l.cfg.delay:
		cause = ErrNotYet
	default:
		return nil
	}
	return skipped(a.run.Job, a.at, cause)
}

const tries = 20 // of a statement that met others

// begin makes the row say that it runs. Nobody else begins meanwhile, because the lock is held; but somebody may have
// begun, and finished, between the look and the lock: then nothing is written, and it looks again.
func (a *attempt) begin(ctx context.Context) error {
	for range tries {
		if a.seen.status == "running" && a.seen.attempt >= a.l.cfg.attempts {
			return a.giveUp(ctx)
		}
		ok, err := a.write(ctx)
		if ok {
			return nil
		}
		if e := a.look(ctx); e != nil { // what another one has written explains the error
			return e
		}
		if err != nil && a.seen.status == "" {
			return fmt.Errorf("jobs: begin %s at %s: %w", a.run.Job, a.at, err)
		}
	}
	return fmt.Errorf("jobs: begin %s at %s: the table changes under the lock: do all programs use the same table and locker?", a.run.Job, a.at)
}

// write writes if all is as it was seen.
func (a *attempt) write(ctx context.Context) (bool, error) {
	job, s := a.run.Job, a.seen
	a.run.Attempt, a.run.Token = s.attempt+1, s.latest+1
	if s.status == "" {
		query, args := beginSQL, []any{job, a.at}
		if a.t.dated {
			query, args = beginDatedSQL, append(args, exact(a.run.Slot))
		}
		return a.exec(ctx, query, append(args, a.run.Token, a.l.cfg.host, job, s.latest)...)
	}
	return a.exec(ctx, againSQL, a.run.Attempt, a.run.Token, a.l.cfg.host, a.trouble(), job, a.at, s.status, s.attempt, s.token, s.latest, job)
}

// trouble is what the row keeps about the attempt before.
func (a *attempt) trouble() string {
	how := "failed"
	if a.seen.status == "running" {
		how = "ended without a word"
	}
	return shorten(fmt.Sprintf("attempt %d on %s, begun %s UTC, %s", a.seen.attempt, a.seen.host, a.seen.started, how), maxError)
}

// giveUp ends a slot whose last attempt was a crash.
func (a *attempt) giveUp(ctx context.Context) error {
	if _, err := a.exec(ctx, failSQL, a.trouble(), a.run.Job, a.at, a.seen.token); err != nil {
		return fmt.Errorf("jobs: give %s at %s up: %w", a.run.Job, a.at, err)
	}
	return skipped(a.run.Job, a.at, fmt.Errorf("%w (%d)", ErrUsedUp, a.seen.attempt))
}

// exec runs a statement that changes one row, or none. One that another transaction was in the way of is run again,
// whatever the session's isolation level is: it did nothing.
func (a *attempt) exec(ctx context.Context, query string, args ...any) (bool, error) {
	for left := tries; ; left-- {
		result, err := a.l.db.ExecContext(ctx, a.t.sql(query), args...)
		if err == nil {
			n, err := result.RowsAffected()
			return n > 0, err
		}
		if !isConflict(err) || left == 1 || ctx.Err() != nil {
			return false, err
		}
	}
}

// isConflict says that the server undid a transaction because of another one's.
func isConflict(err error) bool {
	n, state := native.ErrorNumber(err), sqlState(err)
	return n == 1213 || n == 1020 || state == "40001" || state == "40P01"
}

func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// perform runs fn and records what became of it. The lock is released afterwards, so that whoever has it next sees that.
func (a *attempt) perform(ctx context.Context, lock *sqllock.Lock, fn func(context.Context, *Run) error) (err error) {
	jobCtx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(lock.Context(), func() { cancel(context.Cause(lock.Context())) })
	err = errors.New("the job panicked, or ended its goroutine")
	defer func() {
		stop()
		cancel(context.Canceled)
		if e := a.record(ctx, lock, err); err == nil {
			err = e
		} else if e != nil {
			err = errors.Join(err, e)
		}
	}()
	run := a.run
	err = fn(jobCtx, &run)
	a.l.step("done")
	return err
}

// recordWithin bounds how long the end of a run is tried to be written: a server may be restarting.
const recordWithin = 10 * time.Second

// record writes the outcome, and returns what the caller must know besides the job's own error. That the row was still
// this attempt's is the proof that nobody else had begun: a loss that comes after it, when the lock is released, is none.
func (a *attempt) record(ctx context.Context, lock *sqllock.Lock, outcome error) error {
	lost := context.Cause(lock.Context())
	query, args := succeedSQL, []any{}
	switch {
	case lost != nil:
		query, args = failSQL, append(args, shorten(fmt.Sprintf("%v; the job returned: %v", lost, outcome), maxError))
	case outcome != nil:
		query, args = failSQL, append(args, shorten(outcome.Error(), maxError))
	}
	mine, err := a.persist(ctx, query, append(args, a.run.Job, a.at, a.run.Token)...)
	a.l.step("recorded")
	switch {
	case lost != nil:
		return lost
	case err != nil:
		return fmt.Errorf("jobs: the outcome of %s at %s is not in the table, where it will look like a crash: %w", a.run.Job, a.at, err)
	case !mine:
		return fmt.Errorf("%w: attempt %d at %s at %s was superseded", sqllock.ErrLost, a.run.Attempt, a.run.Job, a.at)
	}
	return nil
}

// persist does not depend on the caller's context, and tries again until its time is over.
func (a *attempt) persist(ctx context.Context, query string, args ...any) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	for {
		if ok, err = a.exec(ctx, query, args...); err == nil {
			return ok, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return false, err
		}
	}
}
