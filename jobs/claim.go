package jobs

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/native"
)

// Claim takes a slot for good, by an INSERT in a short READ COMMITTED transaction of its own, and says whether it was the first.
// It holds no lock, and nothing is known of the job that follows: if the process dies, the slot stays claimed and is not
// run. Use it for jobs that may rather be left out than run twice; [Ledger.Once] is for the others.
//
// "Taken already" is false and nil; every error means that it is not claimed, or, from the commit, not known. A loser never waits for the winner's job. It
// waits for the end of a transaction in which another program inserts the same row, but not for [Ledger.ClaimTx] on
// PostgreSQL.
//
// On the two-column table a slot is a date, as with Once. A table that has no other columns works, too: there, a
// second slot on one date is refused only if the same Ledger was asked for both.
func (l *Ledger) Claim(ctx context.Context, job string, slot time.Time) (claimed bool, err error) {
	t, at, err := l.ready(ctx, l.db, job, slot)
	if err == nil {
		err = l.oneADate(t, job, slot)
	}
	if err != nil {
		return false, err
	}
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return false, fmt.Errorf("jobs: claim %s at %s: %w", job, at, err)
	}
	defer tx.Rollback() // after a commit it does nothing
	if t.postgres {     // look out for a ClaimTx, for which the INSERT would wait; between claims, the row decides
		if ok, err := sqllock.TryLockTxShared(ctx, tx, l.claimKey(job, at)); !ok || err != nil {
			return false, err
		}
	}
	claimed, err = l.insert(ctx, tx, t, job, at, slot)
	if err != nil || !claimed {
		return false, err
	}
	if err := tx.Commit(); err != nil {
		return false, fmt.Errorf("jobs: claim %s at %s: it is not known whether the commit was done: %w", job, at, err)
	}
	return true, nil
}

// ClaimTx is [Ledger.Claim] in the caller's transaction: claimed if it commits, free if it rolls back. It suits a job
// that is done in that transaction.
//
// On PostgreSQL it does not wait for another transaction that claims the same slot: it takes a transaction lock first, and
// returns false if that is held, though the other may yet roll back. REPEATABLE READ and SERIALIZABLE are refused
// with [sqllock.ErrUnsupported]: there, a row that was committed after the snapshot would abort the transaction. A slot
// that is taken never aborts it.
//
// On MySQL and MariaDB, which have no transaction locks, the INSERT waits for the other transaction, at most
// innodb_lock_wait_timeout; a deadlock rolls the transaction back. Import mysqllock, so that a duplicate is told by the
// server's error number; otherwise one more statement looks for the row.
func (l *Ledger) ClaimTx(ctx context.Context, tx *sql.Tx, job string, slot time.Time) (claimed bool, err error) {
	t, at, err := l.ready(ctx, tx, job, slot)
	if err == nil {
		err = l.oneADate(t, job, slot)
	}
	if err != nil {
		return false, err
	}
	if t.postgres {
		if ok, err := sqllock.TryLockTx(ctx, tx, l.claimKey(job, at)); !ok || err != nil {
			return false, err
		}
	}
	return l.insert(ctx, tx, t, job, at, slot)
}

// claimKey is another key than the job's, which a run holds.
func (l *Ledger) claimKey(job, at string) sqllock.Key {
	return l.space(" claim").Name(job + "\x00" + at)
}

// insert inserts the row of a claim. PostgreSQL has a form that does not fail, and so does not abort a transaction.
func (l *Ledger) insert(ctx context.Context, q querier, t *table, job, at string, slot time.Time) (bool, error) {
	query, args := claimSQL, []any{job, at}
	switch {
	case t.bare:
		query = claimBareSQL
	case t.dated:
		query, args = claimDatedSQL, append(args, exact(slot), l.cfg.host)
	default:
		args = append(args, l.cfg.host)
	}
	if t.postgres {
		query += " ON CONFLICT ({job}, {at}) DO NOTHING"
	}
	result, err := q.ExecContext(ctx, t.sql(query), args...)
	if err != nil {
		return l.duplicate(ctx, q, t, job, at, err)
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// duplicate tells a slot that is taken from every other error.
func (l *Ledger) duplicate(ctx context.Context, q querier, t *table, job, at string, err error) (bool, error) {
	n := native.ErrorNumber(err)
	if n == 1062 {
		return false, nil
	}
	if n == 0 && !t.postgres && ctx.Err() == nil { // without mysqllock nothing is known of the error
		var rows int
		if e := q.QueryRowContext(ctx, t.sql(takenSQL), job, at).Scan(&rows); e == nil && rows > 0 {
			return false, nil
		}
	}
	return false, fmt.Errorf("jobs: claim %s at %s: %w", job, at, err)
}

// oneADate remembers the latest slot of each job where the table cannot.
func (l *Ledger) oneADate(t *table, job string, slot time.Time) error {
	if !t.bare {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.last[job]
	if ok && last.Format(dateLayout) == slot.Format(dateLayout) && !last.Equal(slot) {
		return fmt.Errorf("%w: %s has one row a date: %v and %v are two slots of %s on one: a job with several slots a date needs a ledger on another table (WithTable)",
			ErrTable, t.name, last, slot, job)
	}
	l.last[job] = slot
	return nil
}
