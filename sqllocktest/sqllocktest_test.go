package sqllocktest_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/DATA-DOG/go-sqlmock"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/mysqllock"
	"github.com/sqllock/sqllock/sqllocktest"
)

var _ sqllocktest.TestingT = testing.TB(nil)

// fakeT is a test whose failures are looked at. As with a *testing.T, it must not be used after its end.
type fakeT struct {
	failures []string
	cleanups []func()
	over     bool
	late     int
}

func (f *fakeT) Helper()           {}
func (f *fakeT) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }

func (f *fakeT) Errorf(format string, args ...any) {
	if f.over {
		f.late++
	}
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

// end runs the cleanups, last first.
func (f *fakeT) end() {
	for _, fn := range slices.Backward(f.cleanups) {
		fn()
	}
	f.over = true
}

// mockConnector connects to a sqlmock that grants every lock and every release.
func mockConnector(t *testing.T) driver.Connector {
	t.Helper()
	dsn := fmt.Sprint(t.Name(), mocks.Add(1))
	own, mock, err := sqlmock.NewWithDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { own.Close() })
	mock.MatchExpectationsInOrder(false)
	for _, call := range []string{`pg_try_advisory_lock\(1\)`, `pg_try_advisory_lock\(2\)`, `pg_advisory_unlock\(1\)`} {
		mock.ExpectQuery(call).WillReturnRows(sqlmock.NewRows([]string{"answer"}).AddRow(true))
	}
	return mocked{own.Driver(), dsn}
}

var mocks atomic.Int64

type mocked struct {
	driver driver.Driver
	dsn    string
}

func (m mocked) Connect(context.Context) (driver.Conn, error) { return m.driver.Open(m.dsn) }
func (m mocked) Driver() driver.Driver                        { return m.driver }

var postgres = sqllock.WithDialect(sqllock.DialectPostgres)

// ask sends a query whose one value is true.
func ask(t *testing.T, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, query string) {
	t.Helper()
	var yes bool
	if err := db.QueryRowContext(t.Context(), query).Scan(&yes); err != nil || !yes {
		t.Fatalf("%s: %v, %v", query, yes, err)
	}
}

func pin(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestCleanPoolPassesAndIsClosed(t *testing.T) {
	fake := &fakeT{}
	db := sqllocktest.Guard(fake, mockConnector(t), postgres)
	conn := pin(t, db)
	ask(t, conn, "SELECT pg_try_advisory_lock(1)")
	ask(t, conn, "SELECT pg_advisory_unlock(1)")
	conn.Close()
	fake.end()
	if len(fake.failures) > 0 {
		t.Errorf("failures: %q", fake.failures)
	}
	if _, err := db.Conn(t.Context()); err == nil {
		t.Error("the pool is still open")
	}
}

func TestLeakFails(t *testing.T) {
	fake := &fakeT{}
	db := sqllocktest.Guard(fake, mockConnector(t), postgres)
	ask(t, db, "SELECT pg_try_advisory_lock(1)")
	fake.end()
	if len(fake.failures) != 1 {
		t.Fatalf("failures: %q", fake.failures)
	}
	for _, part := range []string{"advisory lock 1", "sqllocktest_test.go:", "remedy: "} {
		if !strings.Contains(fake.failures[0], part) {
			t.Errorf("no %q in %s", part, fake.failures[0])
		}
	}
}

func TestHeldAtTheEndFails(t *testing.T) {
	fake := &fakeT{}
	db := sqllocktest.Guard(fake, mockConnector(t), postgres)
	conn := pin(t, db)
	ask(t, conn, "SELECT pg_try_advisory_lock(1)")
	ask(t, conn, "SELECT pg_try_advisory_lock(2)")
	fake.end()
	if len(fake.failures) != 2 || !strings.Contains(fake.failures[1], "advisory lock 2") ||
		!strings.Contains(fake.failures[1], "sqllocktest_test.go:") {
		t.Errorf("failures: %q", fake.failures)
	}
}

func TestHeldWithoutStacks(t *testing.T) {
	fake := &fakeT{}
	conn := pin(t, sqllocktest.Guard(fake, mockConnector(t), postgres, sqllock.WithStacks(false)))
	ask(t, conn, "SELECT pg_try_advisory_lock(1)")
	fake.end()
	if len(fake.failures) != 1 || strings.Contains(fake.failures[0], "\n") {
		t.Errorf("failures: %q", fake.failures)
	}
}

func TestReportAfterTheEndIsLogged(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	fake := &fakeT{}
	conn := pin(t, sqllocktest.Guard(fake, mockConnector(t), postgres))
	ask(t, conn, "SELECT pg_try_advisory_lock(1)")
	fake.end()
	conn.Close()
	if fake.late > 0 {
		t.Error("the test was failed after its end")
	}
	if !strings.Contains(logged.String(), "advisory lock 1") {
		t.Errorf("logged: %q", &logged)
	}
}

// What cannot be opened fails the test at once, with the remedy, and answers every use with the same.
func TestMistakes(t *testing.T) {
	known := mockConnector(t)
	for want, open := range map[string]func(*fakeT) *sql.DB{
		"unknown driver":       func(f *fakeT) *sql.DB { return sqllocktest.Open(f, "no-such-driver", "") },
		"guarded already":      func(f *fakeT) *sql.DB { return sqllocktest.Open(f, mysqllock.DriverName, "") },
		"WithDialect":          func(f *fakeT) *sql.DB { return sqllocktest.Guard(f, known) },
		"the connector is nil": func(f *fakeT) *sql.DB { return sqllocktest.Guard(f, nil) },
		"WithProbeTimeout":     func(f *fakeT) *sql.DB { return sqllocktest.Guard(f, known, postgres, sqllock.WithProbeTimeout(-1)) },
	} {
		fake := &fakeT{}
		db := open(fake)
		if len(fake.failures) != 1 || !strings.Contains(fake.failures[0], want) {
			t.Errorf("want one failure with %q, got %q", want, fake.failures)
		}
		if err := db.PingContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
		fake.end()
	}
}
