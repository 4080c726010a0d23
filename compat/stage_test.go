package compat

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/mysqllock"
	"github.com/sqllock/sqllock/pgxlock"
)

const pqGuarded = "pq-sqllock"

func init() {
	sql.Register(pqGuarded, sqllock.Wrap(&pq.Driver{}))
	sqlx.BindDriver(pgxlock.DriverName, sqlx.DOLLAR) // sqlx chooses placeholders by the driver's name
	sqlx.BindDriver(pqGuarded, sqlx.DOLLAR)
	sqlx.BindDriver(mysqllock.DriverName, sqlx.QUESTION)
}

func TestMain(m *testing.M) { testbed.Main(m) }

// A stage is a driver on a kind of server.
type stage struct {
	name          string
	server        func(testing.TB) *testbed.Server
	bare, guarded string // the driver's names
	postgres      bool
}

var stages = []stage{
	{"pgx", testbed.Postgres, "pgx", pgxlock.DriverName, true},
	{"lib/pq", testbed.Postgres, "postgres", pqGuarded, true},
	{"MySQL", testbed.MySQL, "mysql", mysqllock.DriverName, false},
	{"MariaDB", testbed.MariaDB, "mysql", mysqllock.DriverName, false},
}

// A pool is what a library is given: a stage's driver on a database of its own.
type pool struct {
	testing.TB
	stage
	server *testbed.Server // the pool's database
	db     *sql.DB
	driver string // the name that db was opened with
	name   string // of a lock or a table, this pool's alone
	ends   bool   // the library closes db
}

// open opens a pool on a database, and closes it when t ends.
func (s stage) open(t testing.TB, database *testbed.Server, driver string) *pool {
	t.Helper()
	p := &pool{TB: t, stage: s, server: database, driver: driver, name: fmt.Sprintf("own_%x", rand.Uint64())}
	db, err := sql.Open(driver, p.dsn())
	p.must(err)
	t.Cleanup(func() { db.Close() })
	p.db = db
	return p
}

// database makes a database for t.
func (s stage) database(t testing.TB) *testbed.Server {
	t.Helper()
	return s.server(t).NewDatabase(t)
}

// dsn has what the libraries ask MySQL's users for: GORM the times, golang-migrate several statements in one text.
func (p *pool) dsn() string {
	dsn := p.server.DSN()
	if p.postgres {
		return dsn
	}
	mark := "?"
	if strings.Contains(dsn, "?") {
		mark = "&"
	}
	return dsn + mark + "parseTime=true&multiStatements=true"
}

func (p *pool) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatalf("%s: %v", p.driver, err)
	}
}

// either is the text for the server.
func (p *pool) either(postgres, mysql string) string {
	if p.postgres {
		return postgres
	}
	return mysql
}

// try is the statement with which programs ask for a lock, for libraries that have ? as placeholder everywhere.
func (p *pool) try() string {
	return p.either("SELECT pg_try_advisory_lock(?)", "SELECT GET_LOCK(?, 0)")
}

// unlock is the statement that gives it back.
func (p *pool) unlock() string {
	return p.either("SELECT pg_advisory_unlock(?)", "SELECT RELEASE_LOCK(?)")
}

// native is a statement with the server's own placeholder.
func (p *pool) native(query string) string {
	return strings.ReplaceAll(query, "?", p.either("$1", "?"))
}

// key is the argument of both.
func (p *pool) key() any {
	if p.postgres {
		return int64(42)
	}
	return p.name
}

// got ends the test if a lock that nobody else has was not acquired, or not released.
func (p *pool) got(done bool) {
	p.Helper()
	if !done {
		p.Fatalf("%s: the lock statement answers false", p.driver)
	}
}

// beside opens another pool of the bare driver on the same database: a second replica's.
func (p *pool) beside() *pool {
	p.Helper()
	other := p.open(p, p.server, p.bare)
	other.name = p.name
	return other
}
