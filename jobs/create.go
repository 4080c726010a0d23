package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/sqllock/sqllock"
)

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

var (
	postgresColumns = "status varchar(10) NOT NULL DEFAULT 'claimed',\nattempt integer NOT NULL DEFAULT 0,\ntoken bigint,\n" +
		"host varchar(255),\nstarted timestamp(6),\nfinished timestamp(6),\nerror text"
	mysqlColumns = strings.ReplaceAll(postgresColumns, "timestamp", "datetime")

	// The second unique key makes one counter of all the tokens of a job, whatever two runners of it do.
	createPostgres = `CREATE TABLE {table} (job varchar(100) NOT NULL, slot timestamp(6) NOT NULL, ` + postgresColumns +
		`, PRIMARY KEY (job, slot), UNIQUE (job, token))`
	createMySQL = `CREATE TABLE {table} (job varchar(100) NOT NULL, slot datetime(6) NOT NULL, ` + mysqlColumns +
		`, PRIMARY KEY (job, slot), UNIQUE KEY job_token (job, token), KEY job_status (job, status))
 ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`
	indexPostgres = `CREATE INDEX ON {table} ({job}, status)`

	adoptPostgres = `ALTER TABLE {table} ADD COLUMN slot timestamp(6), ADD COLUMN ` + added(postgresColumns) + `, ADD UNIQUE (job_name, token)`
	adoptMySQL    = `ALTER TABLE {table} ADD COLUMN slot datetime(6), ADD COLUMN ` + added(mysqlColumns) +
		`, ADD UNIQUE KEY job_token (job_name, token), ADD KEY job_status (job_name, status)`
)

func added(columns string) string { return strings.ReplaceAll(columns, "\n", "\nADD COLUMN ") }

// Create makes the table if it is not there; replicas may all call it at their start. A table that has only the columns
// (job_name, run_date), or these and others that are not the ledger's, is adopted: it gets the ledger's columns, with
// defaults, so that programs that insert the two still can, and their rows count as done. It has room for one slot a day
// and job: the slot's date in the slot's location. Any other table of that name is ErrUnsupported.
//
// It needs the rights to create or alter a table; whoever has a migration tool can do it there instead, see the README.
func (l *Ledger) Create(ctx context.Context) (err error) {
	if l.err != nil {
		return l.err
	}
	lock, err := l.locker.Acquire(ctx, sqllock.Namespace("sqllock/jobs/create").Name(l.cfg.table))
	if err != nil {
		return fmt.Errorf("jobs: create table %s: %w", legible(l.cfg.table), err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	t, err := l.look(ctx, l.db)
	if t != nil && !t.bare {
		l.table.Store(t)
		return nil
	}
	if err != nil && !errors.Is(err, ErrNoTable) {
		return err
	}
	return l.make(ctx, t != nil)
}

func (l *Ledger) make(ctx context.Context, adopt bool) error {
	postgres, err := l.isPostgres(ctx, l.db)
	if err != nil {
		return err
	}
	t := &table{postgres: postgres, name: quote(l.cfg.table, postgres), daily: adopt}
	for _, text := range t.texts() {
		if _, err := l.db.ExecContext(ctx, t.sql(text)); err != nil {
			return fmt.Errorf("jobs: create table %s: %w", legible(l.cfg.table), err)
		}
	}
	_, err = l.find(ctx, l.db)
	return err
}

func (t *table) texts() []string {
	switch {
	case t.postgres && t.daily:
		return []string{adoptPostgres, indexPostgres}
	case t.postgres:
		return []string{createPostgres, indexPostgres}
	case t.daily:
		return []string{adoptMySQL}
	}
	return []string{createMySQL}
}

// find looks at the table once.
func (l *Ledger) find(ctx context.Context, q querier) (*table, error) {
	if t := l.table.Load(); t != nil {
		return t, nil
	}
	t, err := l.look(ctx, q)
	if err == nil && !t.bare {
		l.table.Store(t)
	}
	return t, err
}

// ErrNoTable says that the ledger's table is not there.
var ErrNoTable = errors.New("jobs: there is no such table: call Ledger.Create, or see the README for the statement")

// look asks for the table's columns in a way that fails no transaction.
func (l *Ledger) look(ctx context.Context, q querier) (*table, error) {
	postgres, err := l.isPostgres(ctx, q)
	if err != nil {
		return nil, err
	}
	t := &table{postgres: postgres, name: quote(l.cfg.table, postgres)}
	columns, err := l.columns(ctx, q, t)
	if err == nil {
		err = t.fit(columns)
	}
	if err != nil {
		return nil, fmt.Errorf("jobs: table %s: %w", legible(l.cfg.table), err)
	}
	return t, nil
}

// isPostgres takes the locker's word, or asks.
func (l *Ledger) isPostgres(ctx context.Context, q querier) (bool, error) {
	switch l.locker.(type) {
	case *sqllock.Postgres:
		return true, nil
	case *sqllock.MySQL:
		return false, nil
	}
	return askPostgres(ctx, q)
}

func askPostgres(ctx context.Context, q querier) (bool, error) {
	var version string
	if err := q.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		return false, fmt.Errorf("jobs: what server this is: %w", err)
	}
	return strings.HasPrefix(version, "PostgreSQL"), nil
}

func (l *Ledger) columns(ctx context.Context, q querier, t *table) (map[string]bool, error) {
	query, args := `SELECT n.nspname, a.attname FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = pg_catalog.to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped`, []any{t.name}
	if !t.postgres {
		schema, name := l.cfg.names()
		query = `SELECT TABLE_SCHEMA, COLUMN_NAME FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ?`
		args = []any{schema, name}
	}
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns := map[string]bool{}
	for rows.Next() {
		var schema, name string
		if err := rows.Scan(&schema, &name); err != nil {
			return nil, err
		}
		_, own := l.cfg.names()
		t.space = sqllock.Namespace(schema + "." + own)
		columns[strings.ToLower(name)] = true
	}
	return columns, rows.Err()
}

// fit says which of the three tables this is.
func (t *table) fit(columns map[string]bool) error {
	has := 0
	own := []string{"slot", "status", "attempt", "token", "host", "started", "finished", "error"}
	for _, c := range own {
		if columns[c] {
			has++
		}
	}
	t.daily = columns["job_name"] && columns["run_date"]
	t.bare = t.daily && has == 0
	switch {
	case len(columns) == 0:
		return ErrNoTable
	case t.bare, has == len(own) && (t.daily || columns["job"]):
		return nil
	}
	return unsupported("it is not a ledger's table, nor has it job_name and run_date alone: use WithTable with another name")
}
