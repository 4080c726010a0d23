package jobs

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// What a row's status can be.
const (
	StatusRunning   = "running"   // or cut off, if nobody holds the job's lock
	StatusSucceeded = "succeeded" // for good
	StatusFailed    = "failed"    // to be tried again, by Once of the slot or by Recover, if attempts are left
	StatusClaimed   = "claimed"   // for good: by Claim, or by a program that inserts into the article's table
)

// A Record is one row: the latest attempt of a slot.
type Record struct {
	Job      string
	Slot     time.Time // UTC; midnight UTC of the date, if an adopted table knows no more
	Status   string
	Attempt  int
	Token    int64     // 0 if claimed
	Host     string    // who ran it
	Started  time.Time // the server's clock, UTC; zero if unknown
	Finished time.Time // likewise; zero while it runs
	Error    string    // of the latest attempt

	key string // the slot as the table has it
}

// Runs returns the history of a job, or of all jobs if job is empty, the latest slots first, at most limit of them. It is
// one statement.
func (l *Ledger) Runs(ctx context.Context, job string, limit int) ([]Record, error) {
	where, args, name := "", []any{limit}, job
	if job != "" {
		where, args = "{job} = ?", []any{job, limit}
	} else {
		where, name = "1 = 1", "all"
	}
	t, err := l.ready(ctx, l.db, name)
	if err != nil {
		return nil, err
	}
	if t.bare {
		return nil, unsupported("table %s keeps no history: call Ledger.Create", legible(l.cfg.table))
	}
	return t.records(ctx, l.db, name, where+" ORDER BY {key} DESC, {job} LIMIT ?", args...)
}

func (t *table) records(ctx context.Context, db querier, job, where string, args ...any) ([]Record, error) {
	slot := "{key}"
	if t.daily {
		slot = "COALESCE(slot, {key})"
	}
	rows, err := db.QueryContext(ctx, t.sql("SELECT {job}, "+t.keyText()+", "+t.text(slot)+", status, attempt, token, host, "+t.text("started")+", "+t.text("finished")+
		", error FROM {table} WHERE "+where), args...)
	if err != nil {
		return nil, fmt.Errorf("jobs: runs of %s: %w", legible(job), err)
	}
	defer rows.Close()
	var records []Record
	for rows.Next() {
		r, err := record(rows)
		if err != nil {
			return nil, fmt.Errorf("jobs: runs of %s: %w", legible(job), err)
		}
		records = append(records, r)
	}
	return records, rows.Err()
}

func record(rows *sql.Rows) (r Record, err error) {
	var slot, host, started, finished, text sql.NullString
	var token sql.NullInt64
	if err := rows.Scan(&r.Job, &r.key, &slot, &r.Status, &r.Attempt, &token, &host, &started, &finished, &text); err != nil {
		return r, err
	}
	r.Token, r.Host, r.Error = token.Int64, host.String, text.String
	for _, one := range []struct {
		to   *time.Time
		from string
	}{{&r.Slot, slot.String}, {&r.Started, started.String}, {&r.Finished, finished.String}} {
		if *one.to, err = parse(one.from); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Prune deletes the rows of all jobs that were finished, by whatever end, longer than age ago by the server's clock, and
// returns how many. A slot whose row is gone would be run again: keep rows for longer than any schedule, Recover or
// operator comes back to a slot. The row with a job's latest token stays, so that its tokens go on growing.
func (l *Ledger) Prune(ctx context.Context, age time.Duration) (n int64, err error) {
	t, err := l.ready(ctx, l.db, "prune")
	if err != nil {
		return 0, err
	}
	if t.bare || age < 0 {
		return 0, unsupported("prune of table %s, rows older than %v: call Ledger.Create, and keep no negative time", legible(l.cfg.table), age)
	}
	result, err := l.db.ExecContext(ctx, t.sql(t.prune(age)))
	if err != nil {
		return 0, fmt.Errorf("jobs: prune table %s: %w", legible(l.cfg.table), err)
	}
	return result.RowsAffected()
}

func (t *table) prune(age time.Duration) string {
	const latest = "(SELECT {job} AS job, MAX(token) AS top FROM {table} GROUP BY {job}) m"
	const old = " r.status <> 'running' AND (r.token IS NULL OR r.token < m.top) AND COALESCE(r.finished, r.{key}) < {now} - "
	if t.postgres {
		return "DELETE FROM {table} r USING " + latest + " WHERE m.job = r.{job} AND" + old + fmt.Sprintf("%d * INTERVAL '1 microsecond'", age.Microseconds())
	}
	return "DELETE r FROM {table} r JOIN " + latest + " ON m.job = r.{job} WHERE" + old + fmt.Sprintf("INTERVAL %d MICROSECOND", age.Microseconds())
}
