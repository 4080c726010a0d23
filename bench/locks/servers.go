package main

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	_ "github.com/lib/pq"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/bench/contest"
	"github.com/sqllock/sqllock/internal/testbed"
	_ "github.com/sqllock/sqllock/mysqllock" // the adapters, as in a user's program
	_ "github.com/sqllock/sqllock/pgxlock"
)

// A source is a driver and the real server that it is measured on.
type source struct {
	name     string
	driver   string
	guarded  string // the same driver, guarded; "" if nothing registers it
	postgres bool
	server   func(testing.TB) *testbed.Server
}

func sources() []source {
	return []source{
		{"pgx on PostgreSQL", "pgx", "pgx-sqllock", true, testbed.Postgres},
		{"lib/pq on PostgreSQL", "postgres", "", true, testbed.Postgres},
		{"go-sql-driver on MySQL", "mysql", "mysql-sqllock", false, testbed.MySQL},
		{"go-sql-driver on MariaDB", "mysql", "mysql-sqllock", false, testbed.MariaDB},
	}
}

// locker makes a locker on a pool of the source's driver.
func (s source) locker(db *sql.DB) closer {
	if s.postgres {
		return sqllock.NewPostgres(db)
	}
	return sqllock.NewMySQL(db)
}

type closer interface {
	sqllock.Locker
	Close() error
}

// raw are the raw statements of an uncontended lock and unlock.
func (s source) raw() (try, unlock string) {
	if s.postgres {
		return "SELECT pg_try_advisory_lock($1)", "SELECT pg_advisory_unlock($1)"
	}
	return "SELECT GET_LOCK('raw', 0)", "SELECT RELEASE_LOCK('raw')"
}

var rawKey = sqllock.Name("raw").Int64()

// args are a raw statement's.
func (s source) args() []any {
	if s.postgres {
		return []any{rawKey}
	}
	return nil
}

// end ends the session that holds the key, from outside, and returns when the server has been told.
func (s source) end(ctx context.Context, outside *sql.Conn, key sqllock.Key) error {
	var ok sql.NullInt64
	if s.postgres {
		_, err := outside.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND (classid::int8 << 32 | objid::int8) = $1", key.Int64())
		return err
	}
	if err := outside.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", key.MySQLName()).Scan(&ok); err != nil {
		return err
	}
	_, err := outside.ExecContext(ctx, fmt.Sprint("KILL ", ok.Int64))
	return err
}

// start starts the server, or says why there is none.
func (s source) start() (*testbed.Server, error) { return contest.Start(s.server) }
