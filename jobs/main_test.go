package jobs_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/lib/pq" // registers "postgres"
	"go.uber.org/goleak"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
	_ "github.com/sqllock/sqllock/mysqllock"
	_ "github.com/sqllock/sqllock/pgxlock"
	"github.com/sqllock/sqllock/sqllocktest"
)

// TestMain is also the other processes that tests start: see process_test.go.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what should happen soon.
const patience = 20 * time.Second

// A stack is one driver on one kind of server.
type stack struct {
	name, driver string
	server       func(testing.TB) *testbed.Server
}

var (
	onPgx     = stack{"pgx", "pgx", testbed.Postgres}
	onPQ      = stack{"pq", "postgres", testbed.Postgres}
	onMySQL   = stack{"MySQL", "mysql", testbed.MySQL}
	onMariaDB = stack{"MariaDB", "mysql", testbed.MariaDB}

	stacks = []stack{onPgx, onPQ, onMySQL, onMariaDB}
)

func (k stack) is(other stack) bool { return k.name == other.name }

func (k stack) postgres() bool { return k.driver != "mysql" }

// locker makes what a program makes: one locker per pool.
func (k stack) locker(db *sql.DB, opts ...sqllock.LockerOption) closer {
	if k.postgres() {
		return sqllock.NewPostgres(db, opts...)
	}
	return sqllock.NewMySQL(db, opts...)
}

type closer interface {
	sqllock.Locker
	Close() error
}

// eachStack runs a test on each stack, on a database of its own. When it ends, nothing may be left held.
func eachStack(t *testing.T, test func(*site)) { eachOf(t, stacks, test) }

func eachOf(t *testing.T, stacks []stack, test func(*site)) {
	t.Parallel()
	for _, k := range stacks {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(newSite(t, k, k.server(t).NewDatabase(t)))
		})
	}
}

// A site is a database, and somebody who looks at it from outside.
type site struct {
	*testing.T
	stack
	at      *testbed.Server
	outside *sql.DB
	job     string
}

func newSite(t *testing.T, k stack, s *testbed.Server) *site {
	st := &site{T: t, stack: k, at: s, outside: s.Outside(t), job: "job of " + t.Name() + " " + databaseOf(s)}
	t.Cleanup(func() { s.AwaitFree(t, 5*time.Second) })
	return st
}

// databaseOf tells the sites on one MySQL server apart, whose named locks are one space.
func databaseOf(s *testbed.Server) string {
	dsn, _, _ := strings.Cut(s.DSN(), "?")
	return dsn[strings.LastIndexByte(dsn, '/')+1:]
}

// A replica is what one process of a service has.
type replica struct {
	*jobs.Ledger
	db     *sql.DB
	locker closer
}

// replica makes one more replica, on a pool that fails the test if it leaks. The table exists afterwards.
func (s *site) replica(opts ...jobs.LedgerOption) *replica {
	s.Helper()
	r := s.newReplica(s.at, opts...)
	s.must(r.Create(s.Context()))
	return r
}

func (s *site) newReplica(at *testbed.Server, opts ...jobs.LedgerOption) *replica {
	s.Helper()
	db := sqllocktest.Open(s.T, s.driver, at.DSN())
	r := &replica{db: db, locker: s.locker(db)}
	s.Cleanup(func() { s.must(r.locker.Close()) })
	r.Ledger = jobs.NewLedger(db, r.locker, opts...)
	return r
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	s.Cleanup(cancel)
	return ctx
}

// exec runs statements from outside.
func (s *site) exec(statements ...string) {
	s.Helper()
	for _, q := range statements {
		if _, err := s.outside.ExecContext(s.ctx(), q); err != nil {
			s.Fatalf("%s: %v", q, err)
		}
	}
}

// count returns the number that a query answers, from outside.
func (s *site) count(query string, args ...any) (n int) {
	s.Helper()
	if err := s.outside.QueryRowContext(s.ctx(), query, args...).Scan(&n); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
	return n
}

// record returns what the table has about a slot.
func (s *site) record(r *replica, slot time.Time) jobs.Record {
	s.Helper()
	all, err := r.Runs(s.ctx(), s.job, 1000)
	s.must(err)
	for _, one := range all {
		if one.Slot.Equal(slot) {
			return one
		}
	}
	return jobs.Record{}
}

// kill ends the session that holds the job's lock, from outside.
func (s *site) kill(r *replica) {
	s.Helper()
	if s.postgres() {
		s.exec("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted" +
			" AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()")
		return
	}
	s.exec(fmt.Sprint("KILL ", s.count("SELECT IS_USED_LOCK(?)", r.Key(s.job).MySQLName())))
}

// midnight is a slot.
var midnight = time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
