// Package sqllocktest gives a test a pool that fails it when it leaks a session lock:
//
//	func TestNightlyReport(t *testing.T) {
//		db := sqllocktest.Open(t, "pgx", dsn) // in the program: sql.Open("pgx-sqllock", dsn)
//		...
//	}
//
// Whatever sqllock would report in production, such as a lock that was not released, fails the test with the
// report's text, which names the line that took the lock. A test that expects a report takes a [Recorder].
//
// Import pgxlock or mysqllock in the test if the program does: sqllock then knows the driver as well as there.
package sqllocktest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/sqllock/sqllock"
)

// TestingT is the part of [testing.TB] that this package uses.
type TestingT interface {
	Helper()
	Errorf(format string, args ...any)
	Cleanup(func())
}

// Open returns a guarded pool of the driver that is registered as driverName: the driver's own name, such as "pgx" or
// "mysql", not the guarded one. It is otherwise [Guard], and registers nothing. Where it cannot open the pool, it
// fails t and returns one that answers every use with the error.
func Open(t TestingT, driverName, dsn string, opts ...sqllock.Option) *sql.DB {
	t.Helper()
	c, err := connector(driverName, dsn)
	if err != nil {
		err = fmt.Errorf("sqllocktest: Open(%q): %w", driverName, err)
		t.Errorf("%v", err)
		return sql.OpenDB(failing{err})
	}
	return Guard(t, c, opts...)
}

// Guard returns a guarded pool of c's connections on which any [sqllock.Report] fails t with its text. t's cleanup
// fails t for each lock that the pool is then still known to hold, and closes the pool.
//
// The options are sqllock's. With [sqllock.WithReport], reports go there and do not fail t: see [Recorder]. A
// contradiction among the options fails t, and so does a nil connector or an unknown driver without
// [sqllock.WithDialect]; the pool then answers every use with the error.
//
// The pool is safe for concurrent use. What is reported after the cleanup, when a connection is still in use, is
// logged through log/slog.
func Guard(t TestingT, c driver.Connector, opts ...sqllock.Option) *sql.DB {
	t.Helper()
	w := &watcher{t: t}
	c = sqllock.WrapConnector(c, append([]sqllock.Option{sqllock.WithReport(w.report)}, opts...)...)
	db := sql.OpenDB(c)
	if _, err := sqllock.ReadStats(db); err != nil {
		_, err = c.Connect(context.Background()) // opens nothing: it says what is wrong
		t.Errorf("%v", err)
	}
	t.Cleanup(func() { w.finish(db) })
	return db
}

// connector returns what [sql.Open] would make of its arguments.
func connector(driverName, dsn string) (driver.Connector, error) {
	db, err := sql.Open(driverName, dsn) // the only way to a registered driver
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if _, err := sqllock.ReadStats(db); err == nil {
		return nil, errors.New(`this driver is guarded already: name the one below it, such as "pgx" or "mysql"`)
	}
	if d, ok := db.Driver().(driver.DriverContext); ok {
		return d.OpenConnector(dsn)
	}
	return opener{db.Driver(), dsn}, nil
}

// opener is the connector of a driver that has none.
type opener struct {
	driver driver.Driver
	dsn    string
}

func (o opener) Connect(context.Context) (driver.Conn, error) { return o.driver.Open(o.dsn) }
func (o opener) Driver() driver.Driver                        { return o.driver }

// failing is the connector of a pool that could not be opened.
type failing struct{ err error }

func (f failing) Connect(context.Context) (driver.Conn, error) { return nil, f.err }
func (f failing) Driver() driver.Driver                        { return nil }

// watcher is one test's side of a pool.
type watcher struct {
	mu   sync.Mutex
	t    TestingT
	over bool // t must not be used any more: a *testing.T panics
}

// report fails the test.
func (w *watcher) report(r sqllock.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		slog.Warn(r.String())
		return
	}
	w.t.Errorf("%v", r)
}

// finish is the test's cleanup.
func (w *watcher) finish(db *sql.DB) {
	holds, _ := sqllock.Held(db) // the error is one that Guard has failed t for
	for _, h := range holds {
		w.t.Errorf("sqllocktest: still held at the end of the test: %s, taken by %q%s", h, h.Statement, at(h))
	}
	_ = db.Close() // a driver that cannot close says nothing about locks
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
}

// at says where a lock was taken, if that is known.
func at(h sqllock.Hold) string {
	if place := h.Place(); place != "" {
		return "\n  at " + place
	}
	return ""
}
