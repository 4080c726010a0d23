package main

import (
	"database/sql/driver"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/bench/contest"
	"github.com/sqllock/sqllock/internal/testbed"
	_ "github.com/sqllock/sqllock/mysqllock" // the adapters, as in a user's program
	_ "github.com/sqllock/sqllock/pgxlock"
)

// A serverSource is a driver and the real server that it is measured on.
type serverSource struct {
	name    string
	driver  driver.Driver
	dialect sqllock.Dialect
	server  func(testing.TB) *testbed.Server
}

func realSources() []serverSource {
	pg, my := sqllock.DialectPostgres, sqllock.DialectMySQL
	return []serverSource{
		{"pgx on PostgreSQL", stdlib.GetDefaultDriver(), pg, testbed.Postgres},
		{"lib/pq on PostgreSQL", &pq.Driver{}, pg, testbed.Postgres},
		{"go-sql-driver on MySQL", &mysqldriver.MySQLDriver{}, my, testbed.MySQL},
		{"go-sql-driver on MariaDB", &mysqldriver.MySQLDriver{}, my, testbed.MariaDB},
	}
}

// start starts the server, or says why there is none.
func (s serverSource) start() (source, error) {
	server, err := contest.Start(s.server)
	if err != nil {
		return source{}, err
	}
	return source{name: s.name, driver: s.driver, dsn: server.DSN(), dialect: s.dialect}, nil
}
