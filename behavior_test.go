package sqllock_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqllock/sqllock/internal/testbed"
)

// This file pins what the library relies on and does not control: database/sql, the drivers and the servers. No
// guarded pool is used in it. A test that fails here after an upgrade says what has to be thought over.

// stubConn is a driver's connection that notes how database/sql treats it.
type stubConn struct {
	d *stubDriver
	n int
}

type stubDriver struct {
	opened int
	calls  []string
	valid  bool
	reset  error
	query  error
	shape  func(*stubConn) driver.Conn
}

func (d *stubDriver) Open(string) (driver.Conn, error) {
	d.opened++
	c := &stubConn{d: d, n: d.opened}
	if d.shape == nil {
		return stubKeeper{c}, nil
	}
	return d.shape(c), nil
}
func (d *stubDriver) Connect(context.Context) (driver.Conn, error) { return d.Open("") }
func (d *stubDriver) Driver() driver.Driver                        { return d }
func (d *stubDriver) take() []string                               { calls := d.calls; d.calls = nil; return calls }

func (c *stubConn) note(what string)                                             { c.d.calls = append(c.d.calls, fmt.Sprint(what, c.n)) }
func (c *stubConn) Prepare(string) (driver.Stmt, error)                          { return stubStmt{c}, nil }
func (c *stubConn) Close() error                                                 { c.note("Close"); return nil }
func (c *stubConn) Begin() (driver.Tx, error)                                    { return c, nil }
func (c *stubConn) Commit() error                                                { return nil }
func (c *stubConn) Rollback() error                                              { c.note("Rollback"); return nil }
func (c *stubConn) ResetSession(context.Context) error                           { c.note("ResetSession"); return c.d.reset }
func (c *stubConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return c, nil }
func (c *stubConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	c.note("Query")
	return &stubRows{c: c}, c.d.query
}

// stubKeeper has both SessionResetter and Validator.
type stubKeeper struct{ *stubConn }

func (c stubKeeper) IsValid() bool { c.note("IsValid"); return c.d.valid }

type stubRows struct{ c *stubConn }

func (r *stubRows) Columns() []string { return []string{"a"} }
func (r *stubRows) Close() error      { r.c.note("Rows.Close"); return nil }
func (r *stubRows) Next(dest []driver.Value) error {
	r.c.note("Next")
	dest[0] = int64(1)
	return nil // there would be more
}

type stubStmt struct{ c *stubConn }

func (s stubStmt) Close() error                               { return nil }
func (s stubStmt) NumInput() int                              { return -1 }
func (s stubStmt) Exec([]driver.Value) (driver.Result, error) { return nil, io.EOF }
func (s stubStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, io.EOF }

func openStub(t *testing.T, d *stubDriver) *sql.DB {
	d.valid = true
	db := sql.OpenDB(d)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func take(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	c, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantCalls(t *testing.T, d *stubDriver, want ...string) {
	t.Helper()
	if got := d.take(); !slices.Equal(got, want) {
		t.Errorf("database/sql called %v, want %v", got, want)
	}
}

// The decision is made in IsValid, the backstop is ResetSession.
func TestBehaviorSQLReturn(t *testing.T) {
	ctx := context.Background()
	t.Run("IsValid at every return, ResetSession at the next checkout", func(t *testing.T) {
		d := &stubDriver{}
		db := openStub(t, d)
		take(t, db).Close()
		wantCalls(t, d, "IsValid1")
		take(t, db).Close()
		wantCalls(t, d, "ResetSession1", "IsValid1")
	})
	t.Run("IsValid at a direct hand-off", func(t *testing.T) {
		d := &stubDriver{}
		db := openStub(t, d)
		c := take(t, db)
		got := make(chan *sql.Conn)
		go func() {
			waiter, _ := db.Conn(ctx)
			got <- waiter
		}()
		await(t, time.Second, func() error {
			if db.Stats().WaitCount == 0 {
				return errors.New("nobody waits")
			}
			return nil
		})
		c.Close()
		waiter := <-got
		wantCalls(t, d, "IsValid1", "ResetSession1")
		waiter.Close()
	})
	t.Run("an invalid connection is closed at once, and a waiter gets another", func(t *testing.T) {
		d := &stubDriver{}
		db := openStub(t, d)
		c := take(t, db)
		d.valid = false
		c.Close()
		wantCalls(t, d, "IsValid1", "Close1")
		d.valid = true
		take(t, db).Close()
		wantCalls(t, d, "IsValid2")
	})
	t.Run("an error from ResetSession is ignored unless it is ErrBadConn, which never reaches the caller", func(t *testing.T) {
		d := &stubDriver{reset: errors.New("leak")}
		db := openStub(t, d)
		take(t, db).Close()
		take(t, db).Close()
		wantCalls(t, d, "IsValid1", "ResetSession1", "IsValid1")
		d.reset = fmt.Errorf("leak: %w", driver.ErrBadConn)
		take(t, db).Close() // fails the test if it gets the error
		wantCalls(t, d, "ResetSession1", "Close1", "IsValid2")
	})
	t.Run("Raw closes on ErrBadConn and on a panic only", func(t *testing.T) {
		d := &stubDriver{}
		db := openStub(t, d)
		c := take(t, db)
		c.Raw(func(any) error { return io.EOF })
		c.Close()
		wantCalls(t, d, "IsValid1")
		c = take(t, db)
		c.Raw(func(any) error { return driver.ErrBadConn })
		wantCalls(t, d, "ResetSession1", "Close1") // IsValid is not asked
		c = take(t, db)
		func() {
			defer func() { recover() }()
			c.Raw(func(any) error { panic("x") })
		}()
		wantCalls(t, d, "Close2")
	})
	t.Run("a query's ErrBadConn runs the query again", func(t *testing.T) {
		d := &stubDriver{query: driver.ErrBadConn}
		db := openStub(t, d)
		_, err := db.QueryContext(ctx, "")
		if !errors.Is(err, driver.ErrBadConn) {
			t.Errorf("error %v", err)
		}
		if n := strings.Count(strings.Join(d.take(), " "), "Query"); n < 2 {
			t.Errorf("the query was run %d times", n)
		}
	})
	t.Run("QueryRow.Scan calls Next once", func(t *testing.T) {
		d := &stubDriver{}
		db := openStub(t, d)
		var n int
		if err := db.QueryRowContext(ctx, "").Scan(&n); err != nil {
			t.Fatal(err)
		}
		wantCalls(t, d, "Query1", "Next1", "Rows.Close1", "IsValid1")
	})
}

// A connection with Validator and SessionResetter is kept after a transaction whose context was cancelled.
func TestBehaviorSQLKeepsAfterCancel(t *testing.T) {
	for name, c := range map[string]struct {
		shape func(*stubConn) driver.Conn
		want  []string
	}{
		"with Validator":    {nil, []string{"Rollback1", "IsValid1"}},
		"without Validator": {func(c *stubConn) driver.Conn { return c }, []string{"Rollback1", "Close1"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &stubDriver{shape: c.shape}
			db := openStub(t, d)
			ctx, cancel := context.WithCancel(context.Background())
			if _, err := db.BeginTx(ctx, nil); err != nil {
				t.Fatal(err)
			}
			cancel()
			await(t, time.Second, func() error {
				if db.Stats().InUse > 0 {
					return errors.New("still in use")
				}
				return nil
			})
			wantCalls(t, d, c.want...)
		})
	}
}

// checker notes who is asked to check an argument.
type checkedConn struct{ stubKeeper }

func (c checkedConn) CheckNamedValue(*driver.NamedValue) error { c.note("Conn.Check"); return nil }
func (c checkedConn) Prepare(string) (driver.Stmt, error) {
	return checkedStmt{stubStmt{c.stubConn}}, nil
}
func (c checkedConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return nil, driver.ErrSkip
}

type checkedStmt struct{ stubStmt }

// NumInput is known: Go 1.25 passes over the converter of a statement that does not count its arguments.
func (s checkedStmt) NumInput() int { return 1 }
func (s checkedStmt) CheckNamedValue(*driver.NamedValue) error {
	s.c.note("Stmt.Check")
	return driver.ErrSkip
}
func (s checkedStmt) ColumnConverter(int) driver.ValueConverter {
	s.c.note("Converter")
	return driver.DefaultParameterConverter
}
func (s checkedStmt) Query([]driver.Value) (driver.Rows, error) { return &stubRows{c: s.c}, nil }

func TestBehaviorSQLChecksArguments(t *testing.T) {
	d := &stubDriver{shape: func(c *stubConn) driver.Conn { return checkedConn{stubKeeper{c}} }}
	db := openStub(t, d)
	stmt, err := db.Prepare("")
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	d.take()
	rows, err := stmt.Query(1)
	if err != nil {
		t.Fatal(err)
	}
	rows.Close()
	got := strings.Join(d.take(), " ")
	if !strings.Contains(got, "Stmt.Check1 Converter1") || strings.Contains(got, "Conn.Check") {
		t.Errorf("asked %s: the statement's ErrSkip should lead to its converter and never to the connection", got)
	}
}

// bare is a pool of the driver's own, on one connection.
func bare(t *testing.T, k stack, s *testbed.Server, params string) *sql.DB {
	t.Helper()
	db := sql.OpenDB(k.connector(t, s, params))
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func bareConn(t *testing.T, k stack, params string) (*sql.Conn, *testbed.Server) {
	t.Helper()
	s := k.server(t).NewDatabase(t)
	c := take(t, bare(t, k, s, params))
	t.Cleanup(func() { c.Close() })
	return c, s
}

// driverValue returns what the driver itself answers for the one column of the one row of query.
func driverValue(t *testing.T, c *sql.Conn, query string) (v driver.Value) {
	t.Helper()
	err := c.Raw(func(dc any) error {
		rows, err := dc.(driver.QueryerContext).QueryContext(context.Background(), query, nil)
		if err != nil {
			return err
		}
		defer rows.Close()
		dest := make([]driver.Value, 1)
		if err := rows.Next(dest); err != nil {
			return err
		}
		v = dest[0]
		if b, ok := v.([]byte); ok {
			v = slices.Clone(b)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestBehaviorLockFunctionValues(t *testing.T) {
	for _, c := range []struct {
		k     stack
		query string
		want  driver.Value
	}{
		{onPgx, "SELECT pg_advisory_lock(1)", ""},
		{onPQ, "SELECT pg_advisory_lock(1)", []byte{}},
		{onPgx, "SELECT pg_advisory_lock(NULL)", nil},
		{onPQ, "SELECT pg_advisory_lock(NULL)", nil},
		{onPgx, "SELECT pg_try_advisory_lock(2)", true},
		{onPQ, "SELECT pg_try_advisory_lock(2)", true},
		{onPgx, "SELECT pg_try_advisory_lock(NULL)", nil},
		{onPgx, "SELECT pg_advisory_unlock(99)", false},
		{onPQ, "SELECT pg_advisory_unlock(99)", false},
		{onPgx, "SELECT pg_advisory_unlock_all()", ""},
		{onMySQL, "SELECT GET_LOCK('behavior', 0)", int64(1)},
		{onMariaDB, "SELECT GET_LOCK('behavior', 0)", int64(1)},
		{onMySQL, "SELECT RELEASE_LOCK('behavior nobody')", nil},
		{onMariaDB, "SELECT RELEASE_LOCK('behavior nobody')", nil},
		{onMySQL, "SELECT RELEASE_ALL_LOCKS()", uint64(0)},
		{onMariaDB, "SELECT RELEASE_ALL_LOCKS()", int64(0)},
	} {
		conn, _ := bareConn(t, c.k, "")
		if got := driverValue(t, conn, c.query); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %s gives %T(%v), want %T(%v)", c.k.name, c.query, got, got, c.want, c.want)
		}
	}
}

// What each driver's connection is, to database/sql.
func TestBehaviorDriverInterfaces(t *testing.T) {
	for _, c := range []struct {
		k                 stack
		validator, checks bool
	}{{onPgx, false, true}, {onPQ, true, true}, {onMySQL, true, true}} {
		conn, _ := bareConn(t, c.k, "")
		conn.Raw(func(dc any) error {
			_, validator := dc.(driver.Validator)
			_, resetter := dc.(driver.SessionResetter)
			_, checker := dc.(driver.NamedValueChecker)
			if validator != c.validator || !resetter || checker != c.checks {
				t.Errorf("%s: Validator %v, SessionResetter %v, NamedValueChecker %v", c.k.name, validator, resetter, checker)
			}
			return nil
		})
	}
	if !slices.Contains(sql.Drivers(), "mysql") || !slices.Contains(sql.Drivers(), "pgx") {
		t.Errorf("registered drivers are %v", sql.Drivers())
	}
}

func pgxRaw(t *testing.T, c *sql.Conn, f func(*pgx.Conn)) {
	t.Helper()
	if err := c.Raw(func(dc any) error { f(dc.(*stdlib.Conn).Conn()); return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestBehaviorPgx(t *testing.T) {
	ctx := context.Background()
	c, s := bareConn(t, onPgx, "")
	o := lookAt(t, s)
	status := func() (tx byte) {
		pgxRaw(t, c, func(conn *pgx.Conn) { tx = conn.PgConn().TxStatus() })
		return tx
	}
	run := func(text string, args ...any) error { _, err := c.ExecContext(ctx, text, args...); return err }

	run("BEGIN")
	if status() != 'T' {
		t.Errorf("TxStatus is %c in a transaction", status())
	}
	run("nonsense")
	if status() != 'E' {
		t.Errorf("TxStatus is %c in an aborted transaction", status())
	}
	run("ROLLBACK")
	if status() != 'I' {
		t.Errorf("TxStatus is %c outside of a transaction", status())
	}

	t.Run("a prepared statement's name is accepted as a query's text", func(t *testing.T) {
		pgxRaw(t, c, func(conn *pgx.Conn) { conn.Prepare(ctx, "nightly", "SELECT pg_advisory_lock(5)") })
		if err := run("nightly"); err != nil || len(o.held(t)) != 1 {
			t.Errorf("error %v, held %v", err, o.held(t))
		}
		run("SELECT pg_advisory_unlock_all()")
	})
	t.Run("a QueryRewriter replaces the text", func(t *testing.T) {
		if err := run("SELECT 1", rewriteTo("SELECT pg_advisory_lock(6)")); err != nil || len(o.held(t)) != 1 {
			t.Errorf("error %v, held %v", err, o.held(t))
		}
		run("SELECT pg_advisory_unlock_all()")
	})
	t.Run("a leading QueryExecMode shifts the arguments", func(t *testing.T) {
		if err := run("SELECT pg_advisory_lock($1)", pgx.QueryExecModeExec, 7); err != nil || len(o.held(t)) != 1 {
			t.Errorf("error %v, held %v", err, o.held(t))
		}
		run("SELECT pg_advisory_unlock_all()")
	})
	t.Run("several statements: refused as a query, run as Exec", func(t *testing.T) {
		rows, err := c.QueryContext(ctx, "SELECT 1; SELECT pg_advisory_lock(8)")
		if err == nil {
			rows.Close()
		}
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "42601" {
			t.Errorf("error %v", err)
		}
		if err := run("SELECT 1; SELECT pg_advisory_lock(8)"); err != nil || len(o.held(t)) != 1 {
			t.Errorf("error %v, held %v", err, o.held(t))
		}
		run("SELECT pg_advisory_unlock_all()")
	})
	t.Run("DISCARD ALL breaks the statement cache once", func(t *testing.T) {
		run("SELECT $1::int", 1)
		run("DISCARD ALL")
		var e *pgconn.PgError
		if err := run("SELECT $1::int", 1); !errors.As(err, &e) || e.Code != "26000" {
			t.Errorf("error %v", err)
		}
		if err := run("SELECT $1::int", 1); err != nil {
			t.Errorf("the second time: %v", err)
		}
	})
	t.Run("the simple protocol as an argument prepares nothing", func(t *testing.T) {
		run("DISCARD ALL")
		if err := readAll(ctx, c, "SELECT 12345", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		if n := value(t, c, "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%12345'", pgx.QueryExecModeSimpleProtocol); n != "0" {
			t.Errorf("%s prepared statements", n)
		}
	})
	t.Run("a name in front of the statements that the cache prepares", func(t *testing.T) {
		// EXECUTE reaches statements that the protocol prepared
		if err := readAll(ctx, c, "SELECT pg_try_advisory_lock($1)", int64(9)); err != nil {
			t.Fatal(err)
		}
		name := value(t, c, "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%try_advisory%'", pgx.QueryExecModeSimpleProtocol)
		if !strings.HasPrefix(name, "stmtcache_") {
			t.Errorf("the cache's name is %q", name)
		}
		run("SELECT pg_advisory_unlock_all()")
	})
}

type rewriteTo string

func (r rewriteTo) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return string(r), nil, nil
}

// A connection that came from a pgxpool goes back there when it is closed, lock and all.
func TestBehaviorPgxPoolConnector(t *testing.T) {
	ctx := context.Background()
	s := testbed.Postgres(t).NewDatabase(t)
	o := lookAt(t, s)
	pool, err := pgxpool.New(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if err := readAll(ctx, db, "SELECT pg_advisory_lock(1)"); err != nil {
		t.Fatal(err)
	}
	if n := db.Stats().OpenConnections; n != 0 {
		t.Errorf("OpenDBFromPool keeps %d connections", n)
	}
	if len(o.held(t)) != 1 || pool.Stat().IdleConns() != 1 {
		t.Errorf("held %v, idle in the pgxpool: %d", o.held(t), pool.Stat().IdleConns())
	}
}

// How each driver treats a transaction whose context is cancelled, one that is left open, and an unlock whose
// context is over before it is sent.
func TestBehaviorDriverSessions(t *testing.T) {
	t.Run("a manual BEGIN left open", func(t *testing.T) {
		for _, c := range []struct {
			k      stack
			reused bool
		}{{onPgx, false}, {onPQ, true}} {
			s := c.k.server(t).NewDatabase(t)
			db := bare(t, c.k, s, "")
			pin := take(t, db)
			pid := value(t, pin, "SELECT pg_backend_pid()")
			pin.ExecContext(context.Background(), "BEGIN")
			pin.Close()
			if n := db.Stats().OpenConnections; n != 1 {
				t.Errorf("%s: %d connections after the return", c.k.name, n)
			}
			if reused := value(t, db, "SELECT pg_backend_pid()") == pid; reused != c.reused {
				t.Errorf("%s: reused %v", c.k.name, reused)
			}
		}
	})
	t.Run("Rollback after the transaction's context has ended", func(t *testing.T) {
		for _, c := range []struct {
			k    stack
			open int
		}{{onPgx, 0}, {onMySQL, 1}} { // lib/pq keeps it or not, depending on who comes first
			db := bare(t, c.k, c.k.server(t).NewDatabase(t), "")
			ctx, cancel := context.WithCancel(context.Background())
			if _, err := db.BeginTx(ctx, nil); err != nil {
				t.Fatal(err)
			}
			cancel() // database/sql rolls back
			await(t, time.Second, func() error {
				if n := db.Stats(); n.OpenConnections != c.open || n.InUse != 0 {
					return fmt.Errorf("%s: %d connections, want %d", c.k.name, n.OpenConnections, c.open)
				}
				return nil
			})
		}
	})
	t.Run("an unlock with a context that is over", func(t *testing.T) {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		for _, c := range []struct {
			k            stack
			lock, unlock string
			want         error
		}{
			{onPgx, "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)", driver.ErrBadConn},
			{onMySQL, "SELECT GET_LOCK('behavior dead ctx', 0)", "SELECT RELEASE_LOCK('behavior dead ctx')", context.Canceled},
		} {
			s := c.k.server(t).NewDatabase(t)
			o := lookAt(t, s)
			pin := take(t, bare(t, c.k, s, ""))
			mustRun(t, pin, c.lock)
			pin.Raw(func(dc any) error { // database/sql would look at the context first
				if _, err := dc.(driver.ExecerContext).ExecContext(over, c.unlock, nil); !errors.Is(err, c.want) {
					t.Errorf("%s: error %v, want %v", c.k.name, err, c.want)
				}
				return nil
			})
			if len(o.held(t)) != 1 {
				t.Errorf("%s: the unlock was sent", c.k.name)
			}
			if err := pin.PingContext(context.Background()); err != nil {
				t.Errorf("%s: ping: %v", c.k.name, err)
			}
			pin.Close()
		}
	})
}

// go-sql-driver prepares a statement with arguments, unless interpolateParams is set: then it is sent as text.
func TestBehaviorMySQLInterpolation(t *testing.T) {
	for params, skips := range map[string]bool{"": true, "interpolateParams=true": false} {
		c, _ := bareConn(t, onMySQL, params)
		c.Raw(func(dc any) error {
			rows, err := dc.(driver.QueryerContext).QueryContext(context.Background(), "SELECT ?", []driver.NamedValue{{Ordinal: 1, Value: int64(1)}})
			if err == nil {
				rows.Close()
			}
			if (err == driver.ErrSkip) != skips {
				t.Errorf("%q: %v", params, err)
			}
			return nil
		})
	}
}

func mustRun(t *testing.T, c *sql.Conn, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := readAll(context.Background(), c, text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return fmt.Sprint(err)
}

func TestBehaviorPostgresLocks(t *testing.T) {
	ctx := context.Background()
	c, s := bareConn(t, onPgx, "default_query_exec_mode=simple_protocol")
	o := lookAt(t, s)
	wantHeld := func(t *testing.T, n int) {
		t.Helper()
		if held := o.held(t); len(held) != n {
			t.Errorf("held %v, want %d", held, n)
		}
	}
	free := func() { mustRun(t, c, "SELECT pg_advisory_unlock_all()") }

	t.Run("a session lock survives rollbacks, a transaction lock ends with its savepoint", func(t *testing.T) {
		mustRun(t, c, "BEGIN", "SELECT pg_advisory_lock(1)", "SAVEPOINT a", "SELECT pg_advisory_lock(2)", "SELECT pg_advisory_xact_lock(3)")
		wantHeld(t, 3)
		mustRun(t, c, "ROLLBACK TO a")
		wantHeld(t, 2)
		mustRun(t, c, "ROLLBACK")
		wantHeld(t, 2)
		free()
	})
	t.Run("no unlock in an aborted transaction", func(t *testing.T) {
		mustRun(t, c, "SELECT pg_advisory_lock(1)", "BEGIN")
		readAll(ctx, c, "nonsense")
		if err := readAll(ctx, c, "SELECT pg_advisory_unlock(1)"); sqlState(err) != "25P02" {
			t.Errorf("error %v", err)
		}
		mustRun(t, c, "ROLLBACK")
		wantHeld(t, 1)
		free()
	})
	t.Run("holds stack, and pg_locks shows one", func(t *testing.T) {
		mustRun(t, c, "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_lock(1)")
		wantHeld(t, 1)
		if v := value(t, c, "SELECT pg_advisory_unlock(1)"); v != "true" {
			t.Errorf("unlock: %s", v)
		}
		wantHeld(t, 1)
		free()
		wantHeld(t, 0)
	})
	t.Run("exclusive and shared are separate holds, and so are the key spaces", func(t *testing.T) {
		mustRun(t, c, "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_lock_shared(1)", "SELECT pg_advisory_lock(0,1)")
		wantHeld(t, 3)
		for text, want := range map[string]string{
			"SELECT pg_advisory_unlock_shared(0,1)": "false", "SELECT pg_advisory_unlock(1)": "true", "SELECT pg_advisory_unlock_shared(1)": "true",
		} {
			if got := value(t, c, text); got != want {
				t.Errorf("%s: %s", text, got)
			}
		}
		wantHeld(t, 1)
		free()
	})
	t.Run("objsubid tells the key spaces apart, the halves are unsigned", func(t *testing.T) {
		for lock, want := range map[string]string{
			"pg_advisory_lock(-2)": "4294967295 4294967294 1", "pg_advisory_lock(-1, 7)": "4294967295 7 2", "pg_advisory_lock(4294967298)": "1 2 1",
		} {
			mustRun(t, c, "SELECT "+lock)
			if got := value(t, o, "SELECT classid || ' ' || objid || ' ' || objsubid FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); got != want {
				t.Errorf("%s shows as %s, want %s", lock, got, want)
			}
			free()
		}
	})
	t.Run("unlock_all leaves transaction locks, unlock does not release one", func(t *testing.T) {
		mustRun(t, c, "BEGIN", "SELECT pg_advisory_xact_lock(1)", "SELECT pg_advisory_unlock_all()")
		wantHeld(t, 1)
		if v := value(t, c, "SELECT pg_advisory_unlock(1)"); v != "false" {
			t.Errorf("unlock: %s", v)
		}
		mustRun(t, c, "COMMIT")
		wantHeld(t, 0)
	})
	t.Run("DISCARD ALL: 25001 in a transaction block, an implicit one too", func(t *testing.T) {
		mustRun(t, c, "SELECT pg_advisory_lock(1)", "BEGIN")
		if err := readAll(ctx, c, "DISCARD ALL"); sqlState(err) != "25001" {
			t.Errorf("error %v", err)
		}
		mustRun(t, c, "ROLLBACK")
		if _, err := c.ExecContext(ctx, "SELECT 1; DISCARD ALL"); sqlState(err) != "25001" {
			t.Errorf("error %v", err)
		}
		wantHeld(t, 1)
		mustRun(t, c, "DISCARD ALL")
		wantHeld(t, 0)
	})
	t.Run("a temp table hides pg_locks, but not pg_catalog.pg_locks", func(t *testing.T) {
		mustRun(t, c, "CREATE TEMP TABLE pg_locks (x int)", "SELECT pg_advisory_lock(11)")
		if n := value(t, c, "SELECT count(*) FROM pg_locks"); n != "0" {
			t.Errorf("pg_locks has %s rows", n)
		}
		if n := value(t, c, "SELECT count(*) FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"); n != "1" {
			t.Errorf("pg_catalog.pg_locks has %s rows", n)
		}
		free()
	})
}

func TestBehaviorMySQLLocks(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		ctx := context.Background()
		c, s := bareConn(t, k, "")
		o := lookAt(t, s)
		o.makeTable(t)
		name := "behavior " + k.name
		held := func() int { return len(o.held(t)) }
		want := func(text, v string) {
			t.Helper()
			if got := value(t, c, text); got != v {
				t.Errorf("%s: %s, want %s", text, got, v)
			}
		}

		// values, counting, transactions
		want("SELECT GET_LOCK('"+name+"', 0)", "1")
		want("SELECT GET_LOCK('"+name+"', 0)", "1")
		mustRun(t, c, "BEGIN", "COMMIT", "BEGIN", "ROLLBACK")
		want("SELECT RELEASE_LOCK('"+name+"')", "1")
		if held() != 1 {
			t.Errorf("held %v after one release of two", o.held(t))
		}
		if v := value(t, o, "SELECT RELEASE_LOCK('"+name+"')"); v != "0" {
			t.Errorf("release of another session's lock: %s", v)
		}
		want("SELECT GET_LOCK('"+name+"', 0)", "1")
		want("SELECT GET_LOCK('"+name+"2', 0)", "1")
		want("SELECT RELEASE_ALL_LOCKS()", "3")
		want("SELECT RELEASE_LOCK('"+name+"')", "NULL")
		if held() != 0 {
			t.Errorf("held %v", o.held(t))
		}

		// the case of names
		want("SELECT GET_LOCK('"+name+" Case', 0)", "1")
		folds := map[string]string{"MySQL": "1", "MariaDB": "NULL"}
		want("SELECT RELEASE_LOCK('"+name+" cASE')", folds[k.name])
		mustRun(t, c, "SELECT RELEASE_ALL_LOCKS()")

		// bad names and time-outs
		var e *mysql.MySQLError
		if err := readAll(ctx, c, "SELECT GET_LOCK(REPEAT('x', 193), 0)"); !errors.As(err, &e) || !slices.Contains([]uint16{3057, 4163, 1059}, e.Number) {
			t.Errorf("a long name: %v", err)
		}
		mustRun(t, c, "SELECT RELEASE_ALL_LOCKS()")

		// table locks
		for _, frees := range []struct {
			text string
			want bool
		}{{"COMMIT", false}, {"ROLLBACK", false}, {"SET autocommit = 1", false}, {"SELECT RELEASE_ALL_LOCKS()", false}, {"START TRANSACTION", true}} {
			for _, lock := range []string{"LOCK TABLES t WRITE", "FLUSH TABLES t WITH READ LOCK", "FLUSH TABLES t FOR EXPORT"} {
				mustRun(t, c, lock, frees.text)
				if (held() == 0) != frees.want {
					t.Errorf("%s, %s: held %v", lock, frees.text, o.held(t))
				}
				mustRun(t, c, "UNLOCK TABLES", "ROLLBACK")
			}
		}
		mustRun(t, c, "FLUSH TABLES WITH READ LOCK", "START TRANSACTION", "COMMIT")
		if held() == 0 {
			t.Error("START TRANSACTION freed the global read lock")
		}
		mustRun(t, c, "UNLOCK TABLES")
		mustRun(t, c, "LOCK TABLES t WRITE")
		if err := readAll(ctx, c, "LOCK TABLES nope WRITE"); err == nil || held() != 0 {
			t.Errorf("a failed LOCK TABLES: error %v, held %v", err, o.held(t))
		}
		mustRun(t, c, "LOCK TABLES t WRITE")
		tx, err := c.BeginTx(ctx, nil) // its START TRANSACTION is never seen as a text
		if err != nil || held() != 0 {
			t.Errorf("BeginTx: error %v, held %v", err, o.held(t))
		}
		tx.Commit()
		mustRun(t, c, "HANDLER t OPEN", "COMMIT")
		if held() == 0 {
			t.Error("COMMIT closed the handler")
		}
		mustRun(t, c, "HANDLER t CLOSE", "COMMIT")
		if held() != 0 {
			t.Errorf("held %v", o.held(t))
		}
	}, onMySQL, onMariaDB)
}

// What a session has prepared by SQL outlives the return to the pool.
func TestBehaviorPreparedOutlivesReturn(t *testing.T) {
	for _, c := range []struct {
		k       stack
		prepare string
	}{{onPgx, "PREPARE p AS SELECT 1"}, {onPQ, "PREPARE p AS SELECT 1"}, {onMySQL, "PREPARE p FROM 'SELECT 1'"}, {onMariaDB, "PREPARE p FROM 'SELECT 1'"}} {
		db := bare(t, c.k, c.k.server(t).NewDatabase(t), "")
		for _, text := range []string{c.prepare, "EXECUTE p"} {
			if err := readAll(context.Background(), db, text); err != nil {
				t.Errorf("%s: %s: %v", c.k.name, text, err)
			}
		}
	}
}

// A waiter that is ended from outside: an error on MySQL, NULL on MariaDB.
func TestBehaviorMySQLKillQuery(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		c, s := bareConn(t, k, "")
		o := lookAt(t, s)
		name := "behavior kill " + k.name
		value(t, o, "SELECT GET_LOCK('"+name+"', 0)")
		defer value(t, o, "SELECT RELEASE_ALL_LOCKS()")
		id := value(t, c, "SELECT CONNECTION_ID()")
		answer := make(chan string)
		go func() {
			var v sql.NullInt64
			err := c.QueryRowContext(context.Background(), "SELECT GET_LOCK('"+name+"', 10)").Scan(&v)
			answer <- fmt.Sprint(v.Valid, err)
		}()
		await(t, 5*time.Second, func() error {
			if n := value(t, o, "SELECT COUNT(*) FROM information_schema.processlist WHERE STATE LIKE '%lock%' AND ID = "+id); n != "1" {
				return errors.New("nobody waits")
			}
			return nil
		})
		o.exec(t, "KILL QUERY "+id)
		got := <-answer
		want := map[string]string{"MySQL": "1317", "MariaDB": "false <nil>"}[k.name]
		if !strings.Contains(got, want) {
			t.Errorf("the waiter got %s, want %s", got, want)
		}
	}, onMySQL, onMariaDB)
}
