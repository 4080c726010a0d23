package main

import (
	"database/sql/driver"
	"fmt"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/sqllock/sqllock"
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
	server, err := startServer(s.server)
	if err != nil {
		return source{}, err
	}
	return source{name: s.name, driver: s.driver, dsn: server.DSN(), dialect: s.dialect}, nil
}

// host is the test that testbed wants: it has only the methods that starting a shared server needs.
type host struct{ testing.TB }

// stopped is how a host leaves a function of testbed.
type stopped struct{ error }

func (host) Helper()                   {}
func (host) Skipf(f string, a ...any)  { panic(stopped{fmt.Errorf(f, a...)}) }
func (host) Fatalf(f string, a ...any) { panic(stopped{fmt.Errorf(f, a...)}) }

func startServer(server func(testing.TB) *testbed.Server) (s *testbed.Server, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case stopped:
			err = v
		default:
			panic(v)
		}
	}()
	return server(host{}), nil
}
