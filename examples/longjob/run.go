package main

import (
	"context"
	"errors"
	"io"

	"github.com/sqllock/sqllock/examples/internal/engine"
)

// run sets the scene.
func run(ctx context.Context, out io.Writer, dsn string) error {
	dsn, stop, err := engine.Or(dsn)
	if err != nil {
		return err
	}
	defer stop()
	first, err := open(out, dsn, "replica 1")
	if err != nil {
		return err
	}
	defer first.db.Close()
	second, err := open(out, dsn, "replica 2")
	if err != nil {
		return err
	}
	defer second.db.Close()
	for _, text := range []string{
		"DROP TABLE IF EXISTS job_runs", "DROP TABLE IF EXISTS balance", // of the last time the story was told
		"CREATE TABLE balance (amount int, token bigint)", "INSERT INTO balance VALUES (0, 0)",
	} {
		if _, err := second.db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	if err := errors.Join(first.ledger.Create(ctx), second.ledger.Create(ctx)); err != nil {
		return err
	}
	return tell(ctx, first, second, func() error { return second.endHolder(ctx, engine.IsPostgres(dsn)) })
}

// endHolder is an operator, or a network, or a crash: the session of whoever holds the lock ends.
func (r *replica) endHolder(ctx context.Context, postgres bool) error {
	key, err := r.ledger.Key(ctx, "balance")
	if err != nil {
		return err
	}
	if postgres {
		_, err := r.db.ExecContext(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
			AND (classid::bigint << 32 | objid::bigint) = $1`, key.Int64())
		return err
	}
	var id string
	if err := r.db.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", key.MySQLName()).Scan(&id); err != nil {
		return err
	}
	_, err = r.db.ExecContext(ctx, "KILL "+id)
	return err
}
