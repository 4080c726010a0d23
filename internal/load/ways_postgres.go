package load

import (
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	pgLock = "SELECT pg_advisory_lock($1)"
	pgTry  = "SELECT pg_try_advisory_lock($1)"
)

var postgres = &dialect{
	postgres: true,
	setup: []string{
		"DROP TABLE IF EXISTS load_t", "CREATE TABLE load_t (a int PRIMARY KEY, n int NOT NULL DEFAULT 0, s text NOT NULL) WITH (fillfactor = 50)",
		"CREATE OR REPLACE FUNCTION load_lock(k bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_lock(k); RETURN k; END'",
	},
	filler: "INSERT INTO load_t (a, s) VALUES (%d, 'a row')",
	held: `SELECT (classid::bigint << 32 | objid::bigint)::text FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND granted AND pid IS NOT NULL
		AND classid > 0 AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())`,
	sessions: `SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = pg_catalog.current_database() AND backend_type = 'client backend' AND pid <> pg_catalog.pg_backend_pid()`,
	point:    "SELECT s FROM load_t WHERE a = $1", update: "UPDATE load_t SET n = n + 1 WHERE a = $1", try: pgTry, unlock: "SELECT pg_advisory_unlock($1)",
	ways: []way{
		{"Exec", "", 1, 1, exec(pgLock)},
		{"Exec of a literal", "", 1, 1, exec("SELECT pg_advisory_lock({key})")},
		{"QueryRow, try", "", 1, 1, query(pgTry)},
		{"Conn", "", 1, 1, onConn(pgLock)},
		{"shared", "", 1, 1, onConn("SELECT pg_advisory_lock_shared($1)")},
		{"shared and exclusive, one released", "", 1, 1, onConn("SELECT pg_advisory_lock_shared($1)", pgTry, "SELECT pg_advisory_unlock($1)")},
		{"nested", "", 1, 1, onConn(pgLock, pgTry, pgLock)},
		{"nested, released once less", "", 1, 1, onConn(pgLock, pgTry, "SELECT pg_advisory_unlock($1)")},
		{"two keys, one released", "", 1, 1, onConn(pgLock, "SELECT pg_advisory_lock(7000 + {n})", "SELECT pg_advisory_unlock(7000 + {n})")},
		{"unlock on another connection", "", 2, 2, misplaced(pgLock, "SELECT pg_advisory_unlock($1)")},
		{"Tx, committed", "", 1, 1, inTx((*sql.Tx).Commit, pgLock)},
		{"Tx, rolled back", "", 1, 1, inTx((*sql.Tx).Rollback, pgLock)},
		{"Tx, rolled back to a savepoint", "", 1, 1, inTx((*sql.Tx).Commit, "!SAVEPOINT a", pgLock, "!ROLLBACK TO a")},
		{"Prepare", "", 1, 1, prepared(pgLock)},
		{"PREPARE and EXECUTE", "", 1, 1, onConn("!PREPARE load_p{key} AS SELECT pg_advisory_lock({key})", "EXECUTE load_p{key}")},
		{"cursor", "", 1, 1, inTx((*sql.Tx).Commit, "!DECLARE load_c CURSOR FOR SELECT pg_advisory_lock({key})", "FETCH load_c")},
		{"DO", "", 1, 1, exec("DO $$ BEGIN PERFORM pg_advisory_lock({key}); END $$")},
		{"DO of dynamic text", "", 1, 1, exec("DO $$ BEGIN EXECUTE 'SELECT pg_adv' || 'isory_lock({key})'; END $$")},
		{"function", "", 1, 1, query("SELECT load_lock($1)")},
		{"function from", "", 1, 1, exec("SELECT * FROM load_lock({key})")},
		{"in an expression", "", 1, 1, query("SELECT NOT pg_try_advisory_lock($1)")},
		{"error after the grant", "", 1, 1, onConn("~SELECT pg_advisory_lock($1), 1 / (g - 1) FROM generate_series(1, 1) g")},
		{"several statements", "", 1, 1, exec("SELECT 1; SELECT pg_advisory_lock({key}); SELECT 2")},
		{"rows not read to the end", "", 1, 1, partlyRead("SELECT pg_advisory_lock($1) FROM generate_series(1, 100)")},
		{"BEGIN as text", "", 1, 1, onConn("!BEGIN", pgLock)},
		{"transaction lock under BEGIN as text", "", 1, 1, onConn("!BEGIN", "SELECT pg_advisory_xact_lock($1)")},
		{"cancelled context", "", 0, 1, cancelled("SELECT pg_advisory_lock({key}), pg_sleep(0.2)")},
		{"deadline in a Tx", "", 0, 1, deadline(pgLock, "SELECT pg_sleep(0.2)")},
		{"panic", "", 1, 1, panics(pgLock)},
		{"driver.ErrBadConn", "", 1, 1, badConn(pgLock)},
		{"pgx batch by Raw", "pgx", 1, 1, raw(batch)},
		{"pgx Exec by Raw", "pgx", 1, 1, raw(func(a *attempt, dc driver.Conn) error {
			_, err := dc.(*stdlib.Conn).Conn().Exec(a.ctx, pgLock, a.key())
			return err
		})},
	},
}

func batch(a *attempt, dc driver.Conn) error {
	b := &pgx.Batch{}
	b.Queue("SELECT 1")
	b.Queue(pgLock, a.key())
	results := dc.(*stdlib.Conn).Conn().SendBatch(a.ctx, b)
	_, err := results.Exec()
	_, err2 := results.Exec()
	return errors.Join(err, err2, results.Close())
}
