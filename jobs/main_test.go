package jobs_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
	_ "github.com/sqllock/sqllock/mysqllock"
	_ "github.com/sqllock/sqllock/pgxlock"
)

// TestMain runs a replica instead of the tests in a process that a test has started.
func TestMain(m *testing.M) {
	if role := os.Getenv("SQLLOCK_REPLICA"); role != "" {
		os.Exit(replicaMain(role))
	}
	testbed.Main(m)
}

var engines = []struct {
	name  string
	start func(testing.TB) *testbed.Server
}{{"PostgreSQL", testbed.Postgres}, {"MySQL", testbed.MySQL}, {"MariaDB", testbed.MariaDB}}

// onEach runs f in parallel on a database of its own on each server. At its end, no lock is held.
func onEach(t *testing.T, f func(t *testing.T, s *testbed.Server)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := e.start(t).NewDatabase(t)
			f(t, s)
			s.AwaitFree(t, 5*time.Second)
		})
	}
}

func isPostgres(s *testbed.Server) bool { return s.Kind == testbed.KindPostgres }

// connector returns the driver's own connector.
func connector(dsn string, postgres bool) (driver.Connector, error) {
	if postgres {
		cfg, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		return stdlib.GetConnector(*cfg), nil
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{}
	return mysql.NewConnector(cfg)
}

// replica is what a program has: a guarded pool, a locker and a ledger.
type replica struct {
	db     *sql.DB
	locker interface {
		sqllock.Locker
		Close() error
	}
	*jobs.Ledger
}

func newReplica(dsn string, postgres bool, opts ...jobs.LedgerOption) (*replica, error) {
	c, err := connector(dsn, postgres)
	if err != nil {
		return nil, err
	}
	return replicaOf(sqllock.OpenDB(c), postgres, opts...), nil
}

func replicaOf(db *sql.DB, postgres bool, opts ...jobs.LedgerOption) *replica {
	r := &replica{db: db}
	if postgres {
		r.locker = sqllock.NewPostgres(db)
	} else {
		r.locker = sqllock.NewMySQL(db)
	}
	r.Ledger = jobs.NewLedger(db, r.locker, opts...)
	return r
}

func (r *replica) close() error {
	_ = r.locker.Close()
	return r.db.Close()
}

// open starts a replica in this process and makes the table.
func open(t *testing.T, s *testbed.Server, opts ...jobs.LedgerOption) *replica {
	t.Helper()
	r, err := newReplica(s.DSN(), isPostgres(s), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.close() })
	if err := r.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

var slot0 = time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)

func done(context.Context, *jobs.Run) error { return nil }

// do is Do that has to end as said.
func (r *replica) do(t *testing.T, job string, slot time.Time, want jobs.Outcome, fn func(context.Context, *jobs.Run) error) {
	t.Helper()
	if got, err := r.Do(t.Context(), job, slot, fn); got != want || err != nil {
		t.Errorf("Do(%s, %v): %v, %v; want %v", job, slot, got, err, want)
	}
}

// history is the job's rows, the oldest slot first, as "03-29T00:00:00 succeeded 1": slot, status, attempt.
func (r *replica) history(t *testing.T, job string) (lines []string) {
	t.Helper()
	records, err := r.Runs(t.Context(), job, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range records {
		lines = append([]string{fmt.Sprintf("%s %s %d", one.Slot.Format("01-02T15:04:05"), one.Status, one.Attempt)}, lines...)
	}
	return lines
}

// replicaMain is what a child does; see process_test.go.
var replicaMain = func(string) int { return 2 }

func await(t *testing.T, what string, within time.Duration, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: still not %s", within, what)
		}
	}
}
