package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/native"
)

// A row is what the table says of one slot, and of the job's latest token.
type row struct {
	status  string // "" if there is none
	attempt int
	token   int64
	slot    time.Time // the exact one, where the key is only its date; zero if unknown
	top     int64     // the greatest token of the job's rows
}

// Every statement of a ledger is a transaction of its own: it sees what was committed before it, whatever isolation
// level the sessions have, and holds no lock while a job runs.

func (t *table) look(ctx context.Context, db querier, job, key string, slot time.Time) (r row, err error) {
	query := t.sql(`SELECT (SELECT MAX(token) FROM {table} WHERE {job} = ?), r.status, r.attempt, r.token, ` + t.text("r.slot") +
		` FROM (SELECT 1 AS one) o LEFT JOIN {table} r ON r.{job} = ? AND r.{key} = ?`)
	var status, exactly sql.NullString
	var attempt, token, top sql.NullInt64
	if err := db.QueryRowContext(ctx, query, job, job, key).Scan(&top, &status, &attempt, &token, &exactly); err != nil {
		return row{}, err
	}
	r = row{status: status.String, attempt: int(attempt.Int64), token: token.Int64, top: top.Int64}
	r.slot, err = parse(exactly.String)
	if err == nil && t.daily && !r.slot.IsZero() && !r.slot.Equal(slot.Truncate(time.Microsecond)) {
		err = unsupported("this table has room for one slot a day, and %s has the slot %s already: give the ledger a table of its own with WithTable",
			key, r.slot.Format(time.RFC3339))
	}
	return r, err
}

// topIs is the condition that the job's greatest token still is what was seen. That the next one is free does not say so: a slot
// that was taken over has left it. MySQL reads the table that it writes only through a derived one.
const topIs = " COALESCE((SELECT m.top FROM (SELECT MAX(token) AS top FROM {table} WHERE {job} = ?) m), 0) = ?"

// insert says false if somebody else has inserted the slot, or got a token.
func (t *table) insert(ctx context.Context, db querier, run *Run, seen row, host string) (bool, error) {
	columns, marks, args := "{job}, {key}", "?, ?", []any{run.Job, run.key}
	if t.daily {
		columns, marks, args = columns+", slot", marks+", ?", append(args, exact(run.Slot))
	}
	ok, err := t.unless(ctx, db, "INSERT INTO {table} ("+columns+", status, attempt, token, host, started)"+
		" SELECT "+marks+", 'running', 1, ?, ?, {now} FROM (SELECT 1 AS one) o WHERE"+topIs,
		append(args, run.Token, host, run.Job, seen.top)...)
	return ok, unlessRaced(err)
}

// unless runs an insert and says whether there was no such row. On PostgreSQL the duplicate must be no error, which would
// abort a caller's transaction; MySQL's way to that, IGNORE, would hide other errors, and an error there aborts nothing.
func (t *table) unless(ctx context.Context, db querier, insert string, args ...any) (bool, error) {
	if t.postgres {
		insert += " ON CONFLICT DO NOTHING"
	}
	ok, err := t.change(ctx, db, insert, args...)
	if isDuplicate(err) {
		return false, nil
	}
	return ok, err
}

// takeOver grants the slot anew if its row still is what was seen, and nobody got a token since.
func (t *table) takeOver(ctx context.Context, db querier, run *Run, seen row, host string) (bool, error) {
	ok, err := t.change(ctx, db, `UPDATE {table} SET status = 'running', attempt = ?, token = ?, host = ?, started = {now}, finished = NULL, error = NULL`+
		` WHERE {job} = ? AND {key} = ? AND status = ? AND attempt = ? AND`+topIs,
		run.Attempt, run.Token, host, run.Job, run.key, seen.status, seen.attempt, run.Job, seen.top)
	return ok, unlessRaced(err)
}

// unlessRaced hides the errors of a grant that came second: the token is taken, or the server could not put two grants in order
// (MySQL locks the gap that topIs reads, PostgreSQL may be set to serializable) and has undone this one.
func unlessRaced(err error) error {
	if isDuplicate(err) || isError(err, 1213, "40001", "40P01") {
		return nil
	}
	return err
}

// finish closes a running row, and says false if it is another grant's by now.
func (t *table) finish(ctx context.Context, db querier, job, key string, token int64, status, text string) (bool, error) {
	return t.change(ctx, db, `UPDATE {table} SET status = ?, finished = {now}, error = ? WHERE {job} = ? AND {key} = ? AND token = ? AND status = 'running'`,
		status, sql.NullString{String: text, Valid: text != ""}, job, key, token)
}

func (t *table) change(ctx context.Context, db querier, text string, args ...any) (bool, error) {
	result, err := db.ExecContext(ctx, t.sql(text), args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

func isDuplicate(err error) bool { return isError(err, 1062, "23505") }

// isError knows an error by MySQL's number or PostgreSQL's states. go-sql-driver's without its adapter shows in its text alone.
func isError(err error, number int, states ...string) bool {
	var state interface{ SQLState() string }
	switch {
	case err == nil:
		return false
	case errors.As(err, &state) && slices.Contains(states, state.SQLState()):
		return true
	}
	return int(native.ErrorNumber(err)) == number || strings.Contains(err.Error(), fmt.Sprintf("Error %d ", number))
}

// clean makes a text that every server's column takes: valid UTF-8 without NUL, and not longer than max bytes.
func clean(text string, limit int) string {
	text = strings.ReplaceAll(text, "\x00", "")
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "")
}

func lost(format string, args ...any) error {
	return fmt.Errorf("%w: %s", sqllock.ErrLost, fmt.Sprintf(format, args...))
}
