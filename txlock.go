package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// RunExclusive runs job in a transaction that holds key, a PostgreSQL transaction lock, and says whether it ran: if
// the key is held elsewhere it returns false and nil at once. It suits jobs of seconds: the transaction stays open
// for the whole job, and an open transaction keeps VACUUM from its work. It also works through PgBouncer in
// transaction mode, and nothing can leak: the server releases the lock when the transaction ends, however it ends.
//
// The transaction is READ COMMITTED and ctx bounds it: when ctx ends, it is rolled back. If job returns an error, the
// transaction is rolled back and that error is returned; a panic is passed on after the rollback. If job ended the
// transaction itself, the lock was gone before the job was: ErrLost. An error of the commit is returned: the outcome is
// then unknown, as with every commit. It can be called concurrently, at one connection each.
func RunExclusive(ctx context.Context, db *sql.DB, key Key, job func(*sql.Tx) error) (ran bool, err error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if sqlState(err) == "0A000" { // lib/pq asks for READ WRITE
		return false, fmt.Errorf("%w: %w", errStandby, err)
	}
	if sqlState(err) == "08P01" {
		return false, fmt.Errorf("%w: BEGIN is refused, as by a pooler in statement mode: connect to the server itself, or to a pool in transaction mode: %w", ErrUnsupported, err)
	}
	if err != nil {
		return false, err
	}
	defer tx.Rollback() // after a commit it does nothing
	locked, began, err := lockTx(ctx, tx, key, false, &pgTryTx, "")
	if err != nil || !locked {
		return false, err
	}
	if err := job(tx); err != nil {
		return true, err
	}
	if err := stillIn(ctx, tx, began); err != nil {
		return true, err
	}
	return true, tx.Commit()
}

// stillIn tells one transaction from the next: a job may also have ended its own by text.
func stillIn(ctx context.Context, tx *sql.Tx, began string) error {
	var now string
	err := tx.QueryRowContext(ctx, "SELECT "+pgTxStart).Scan(&now)
	switch {
	case ctx.Err() != nil:
		return joinContext(ctx, err)
	case errors.Is(err, sql.ErrTxDone), err == nil && now != began:
		return fmt.Errorf("%w: the job ended the transaction that held it", ErrLost)
	}
	return err
}

const pgTxStart = "pg_catalog.transaction_timestamp()::pg_catalog.text"

// TryLockTx takes key for the rest of the transaction if nobody holds it, and says whether it did, without waiting.
// The server releases it when the transaction ends. There is no early release, and a lock taken after a savepoint
// goes when the transaction rolls back to it. A transaction can take a key again. An error leaves the transaction
// aborted, as every error does in PostgreSQL.
//
// REPEATABLE READ and SERIALIZABLE are refused with [ErrUnsupported]: the transaction's snapshot can be older than the
// lock, so that it would not see what the previous holder wrote. So is a standby.
func TryLockTx(ctx context.Context, tx *sql.Tx, key Key) (bool, error) {
	ok, _, err := lockTx(ctx, tx, key, false, &pgTryTx, "")
	return ok, err
}

// TryLockTxShared is [TryLockTx] for a shared lock.
func TryLockTxShared(ctx context.Context, tx *sql.Tx, key Key) (bool, error) {
	ok, _, err := lockTx(ctx, tx, key, true, &pgTryTx, "")
	return ok, err
}

// LockTx waits until it has key for the rest of the transaction, or until ctx ends, which aborts the transaction; the
// error then matches ctx's own. A deadlock with other transactions is ErrDeadlock. While it waits the transaction is open, and its
// statement's snapshot holds up CREATE INDEX CONCURRENTLY. The refusals are those of [TryLockTx].
func LockTx(ctx context.Context, tx *sql.Tx, key Key) error {
	_, _, err := lockTx(ctx, tx, key, false, &pgWaitTx, " IS NOT NULL")
	return err
}

// LockTxShared is [LockTx] for a shared lock.
func LockTxShared(ctx context.Context, tx *sql.Tx, key Key) error {
	_, _, err := lockTx(ctx, tx, key, true, &pgWaitTx, " IS NOT NULL")
	return err
}

func lockTx(ctx context.Context, tx *sql.Tx, key Key, shared bool, calls *pgCalls, asBool string) (ok bool, began string, err error) {
	k := postgresSQL{}.key(key)
	query := "SELECT pg_catalog.pg_is_in_recovery(), " + pgTxStart +
		", CASE WHEN pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.~~) 'read %'" +
		" AND NOT pg_catalog.pg_is_in_recovery() THEN " + calls.of(k, shared) + asBool + " END"
	var standby bool
	var granted sql.NullBool
	err = tx.QueryRowContext(ctx, query, pgArgs(k)...).Scan(&standby, &began, &granted)
	switch {
	case err != nil:
		return false, "", acquireError(ctx, key, pgError(err))
	case standby:
		return false, "", errStandby
	case !granted.Valid:
		return false, "", fmt.Errorf("%w: the transaction's isolation level is above READ COMMITTED, so that its snapshot can be older than the lock: begin it with sql.LevelReadCommitted", ErrUnsupported)
	}
	return granted.Bool, began, nil
}
