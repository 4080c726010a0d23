package main

import (
	"database/sql"
	"testing"

	_ "github.com/lib/pq"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/bench/contest"
	"github.com/sqllock/sqllock/internal/testbed"
	_ "github.com/sqllock/sqllock/mysqllock" // the adapters, as in a user's program
	_ "github.com/sqllock/sqllock/pgxlock"
)

// A source is a driver and a server.
type source struct {
	name     string
	driver   string
	postgres bool
	dsn      string
}

// servers are the addresses of what was started.
type servers struct{ Postgres, MySQL, MariaDB, Redis string }

func start() (all servers, err error) {
	for _, one := range []struct {
		start   func(testing.TB) *testbed.Server
		address func(*testbed.Server) string
		to      *string
	}{
		{testbed.Postgres, (*testbed.Server).DSN, &all.Postgres},
		{testbed.MySQL, (*testbed.Server).DSN, &all.MySQL},
		{testbed.MariaDB, (*testbed.Server).DSN, &all.MariaDB},
		{testbed.Redis, (*testbed.Server).Addr, &all.Redis},
	} {
		s, err := contest.Start(one.start)
		if err != nil {
			return all, err
		}
		*one.to = one.address(s)
	}
	return all, nil
}

func (a servers) sources() []source {
	return []source{
		{"PostgreSQL, pgx", "pgx", true, a.Postgres},
		{"PostgreSQL, lib/pq", "postgres", true, a.Postgres},
		{"MySQL", "mysql", false, a.MySQL},
		{"MariaDB", "mysql", false, a.MariaDB},
	}
}

// closer is a locker that can be closed.
type closer interface {
	sqllock.Locker
	Close() error
}

func (s source) locker(db *sql.DB, opts ...sqllock.LockerOption) closer {
	if s.postgres {
		return sqllock.NewPostgres(db, opts...)
	}
	return sqllock.NewMySQL(db, opts...)
}

func (s source) statements(key string) (try, unlock string, args []any) {
	k := sqllock.Name(key)
	if s.postgres {
		return "SELECT pg_try_advisory_lock($1)", "SELECT pg_advisory_unlock($1)", []any{k.Int64()}
	}
	return "SELECT GET_LOCK('" + k.MySQLName() + "', 0)", "SELECT RELEASE_LOCK('" + k.MySQLName() + "')", nil
}
