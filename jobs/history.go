package jobs

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"
)

// The states of a slot.
const (
	Running   = "running"   // or its process died: see [Ledger.Recover]
	Succeeded = "succeeded" // for good
	Failed    = "failed"    // Error says why; it is run again while it has attempts left
	Claimed   = "claimed"   // by Claim, or by an INSERT of another program's
)

// A Record is what the table has about one slot.
type Record struct {
	Job      string
	Slot     time.Time // in the ledger's location: see [WithLocation]
	Status   string    // one of the states
	Attempt  int       // the latest one's number; 0 for a claim
	Token    int64     // the latest attempt's; 0 for a claim
	Host     string    // who ran it last
	Started  time.Time // the latest attempt, by the server's clock; zero if unknown
	Finished time.Time // zero while it runs
	Error    string    // the latest trouble: it stays when a later attempt succeeds
}

// Runs returns the history of a job, or of all jobs if job is "": at most limit slots, the latest first.
func (l *Ledger) Runs(ctx context.Context, job string, limit int) ([]Record, error) {
	if job == "" && l.err == nil {
		return l.runs(ctx, "", limit)
	}
	if err := checkJob(job); err != nil && l.err == nil {
		return nil, err
	}
	return l.runs(ctx, job, limit)
}

func (l *Ledger) runs(ctx context.Context, job string, limit int) (all []Record, err error) {
	if l.err != nil {
		return nil, l.err
	}
	t, err := l.table(ctx, l.db)
	if err != nil {
		return nil, err
	}
	if t.bare {
		return nil, fmt.Errorf("%w: %s has no history: call Ledger.Create, which adds its columns", ErrTable, t.name)
	}
	rows, err := l.db.QueryContext(ctx, t.sql(runsSQL)+strconv.Itoa(max(limit, 0)), job, job)
	if err != nil {
		return nil, fmt.Errorf("jobs: read the history: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		r, err := t.record(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

func (t *table) record(rows *sql.Rows) (r Record, err error) {
	var at string
	var slot, started, finished *string
	err = rows.Scan(&r.Job, &at, &slot, &r.Status, &r.Attempt, &r.Token, &r.Host, &started, &finished, &r.Error)
	if err == nil {
		r.Slot, err = t.read(at, slot)
	}
	if err == nil {
		r.Started, err = t.moment(started)
	}
	if err == nil {
		r.Finished, err = t.moment(finished)
	}
	return r, err
}

// moment reads a time of the server's clock.
func (t *table) moment(text *string) (time.Time, error) {
	if text == nil {
		return time.Time{}, nil
	}
	m, err := time.Parse(slotLayout, *text)
	return m.In(t.location), err
}

// Prune removes the job's slots that lie further back than keep, by the server's clock, whatever became of them, and returns
// how many. Slots that are running stay, and so does the row with the job's latest token, which is the counter. Keep more
// than the time for which a slot may still be asked for: Once runs a slot that was removed again.
func (l *Ledger) Prune(ctx context.Context, job string, keep time.Duration) (n int64, err error) {
	t, _, err := l.ready(ctx, l.db, job, time.Unix(0, 0))
	switch {
	case err != nil:
		return 0, err
	case t.bare:
		return 0, fmt.Errorf("%w: %s has no history: call Ledger.Create, which adds its columns", ErrTable, t.name)
	case keep < 0:
		return 0, fmt.Errorf("jobs: Prune: keep %v: must not be negative", keep)
	}
	result, err := l.db.ExecContext(ctx, t.sql(pruneSQL), job, keep.Seconds(), job)
	if err != nil {
		return 0, fmt.Errorf("jobs: prune %s: %w", job, err)
	}
	return result.RowsAffected()
}
