package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// A play is one run of a script, bare or guarded, and what its program saw.
type play struct {
	t    *testing.T
	srv  *fakeServer
	db   *sql.DB
	conn *sql.Conn // pinned
	lane fakeLane
	log  []string
}

// A fakeLane is a set of statements of one kind, so that each script runs on the direct and on the observed lane.
type fakeLane struct {
	name  string
	one   string // with one parameter
	plain string // without; leaves nothing behind, so that it may run on the pool
	many  string // with three result sets
}

var fakeLanes = []fakeLane{
	{"ordinary", "SELECT echo($1)", "SELECT 1", "SELECT sets(3)"},
	{"observed", "SELECT pg_try_advisory_lock($1)", "SELECT pg_advisory_xact_lock(1)", "SELECT pg_try_advisory_lock(1); SELECT 2; SELECT 3"},
}

// A handle is what *sql.DB, *sql.Conn and *sql.Tx have in common.
type handle interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func (p *play) say(format string, args ...any) { p.log = append(p.log, fmt.Sprintf(format, args...)) }

// err says everything that a program can learn from an error.
func (p *play) err(what string, err error) {
	own := new(fakeError)
	p.say("%s: %v, cause %v, own %v, ctx %v, bad %v", what, err, errors.Is(err, errFakeCause), errors.As(err, &own),
		errors.Is(err, context.Canceled), errors.Is(err, driver.ErrBadConn))
}

func (p *play) query(h handle, text string, args ...any) {
	rows, err := h.QueryContext(p.t.Context(), text, args...)
	p.rows(rows, err)
}

// rows reads everything that rows can tell.
func (p *play) rows(rows *sql.Rows, err error) {
	if p.err("query", err); err != nil {
		return
	}
	for more := true; more; more = rows.NextResultSet() {
		p.columns(rows)
		for rows.Next() {
			var v any
			p.err("scan", rows.Scan(&v))
			p.say("row %T(%v)", v, v)
		}
		p.err("rows", rows.Err())
	}
	p.err("close", rows.Close())
}

func (p *play) columns(rows *sql.Rows) {
	types, err := rows.ColumnTypes()
	p.err("columns", err)
	for _, c := range types {
		length, hasLength := c.Length()
		null, hasNull := c.Nullable()
		precision, scale, hasScale := c.DecimalSize()
		p.say("column %s %s %d %v %v %v %d %d %v %v", c.Name(), c.DatabaseTypeName(), length, hasLength, null, hasNull,
			precision, scale, hasScale, c.ScanType())
	}
}

func (p *play) exec(h handle, text string, args ...any) {
	res, err := h.ExecContext(p.t.Context(), text, args...)
	if p.err("exec", err); err != nil {
		return
	}
	n, err := res.RowsAffected()
	p.say("affected %d", n)
	p.err("affected", err)
	_, err = res.LastInsertId()
	p.err("inserted", err)
}

// prepared runs a statement twice each way.
func (p *play) prepared(h handle, text string, args ...any) {
	st, err := h.PrepareContext(p.t.Context(), text)
	if p.err("prepare", err); err != nil {
		return
	}
	for range 2 {
		rows, err := st.QueryContext(p.t.Context(), args...)
		p.rows(rows, err)
		_, err = st.ExecContext(p.t.Context(), args...)
		p.err("exec", err)
	}
	p.err("close", st.Close())
}

// every is each way to send a statement.
func (p *play) every(h handle, text string, args ...any) {
	p.query(h, text, args...)
	p.exec(h, text, args...)
	p.prepared(h, text, args...)
}

// tx runs f in a transaction.
func (p *play) tx(ctx context.Context, opts *sql.TxOptions, f func(*sql.Tx)) {
	tx, err := p.db.BeginTx(ctx, opts)
	if p.err("begin", err); err == nil {
		f(tx)
	}
}

type fakeScript struct {
	name string
	run  func(*play)
}

var fakeScripts = []fakeScript{
	{"on a pool", func(p *play) { p.every(p.db, p.lane.plain) }},
	{"on a pinned connection", func(p *play) {
		p.every(p.conn, p.lane.one, 7)
		p.every(p.conn, p.lane.many)
	}},
	{"presence", func(p *play) {
		p.err("raw", p.conn.Raw(func(dc any) error {
			_, q := dc.(driver.Queryer) //nolint:staticcheck // either form counts
			_, qc := dc.(driver.QueryerContext)
			_, e := dc.(driver.Execer) //nolint:staticcheck // either form counts
			_, ec := dc.(driver.ExecerContext)
			_, n := dc.(driver.NamedValueChecker)
			p.say("query %v exec %v checker %v", q || qc, e || ec, n)
			return nil
		}))
	}},
	{"values", func(p *play) {
		for _, v := range []any{int64(1), uint8(2), "3", []byte("4"), 5.5, true, nil, time.Unix(6, 0).UTC(), new(int64), sql.NullInt64{Int64: 7, Valid: true}, sql.NullInt64{}} {
			p.every(p.conn, p.lane.one, v)
		}
	}},
	{"custom types", func(p *play) {
		for _, v := range []any{fakeID{1}, fakeRaw{"2"}, struct{}{}, &fakeError{"from the checker"}} {
			p.every(p.conn, p.lane.one, v)
		}
	}},
	{"removed argument", func(p *play) {
		p.every(p.conn, p.lane.one, fakeOption{}, 7)
		p.every(p.conn, p.lane.one, 7, fakeOption{})
		p.every(p.conn, p.lane.plain, fakeOption{})
	}},
	{"argument count", func(p *play) {
		p.every(p.conn, p.lane.one)
		p.every(p.conn, p.lane.one, 1, 2)
		p.every(p.conn, p.lane.plain, 1)
	}},
	{"named argument", func(p *play) { p.every(p.conn, p.lane.one, sql.Named("k", 7)) }},
	{"isolation levels", func(p *play) {
		for _, o := range []*sql.TxOptions{nil, {}, {Isolation: sql.LevelSerializable}, {ReadOnly: true}, {Isolation: sql.LevelReadCommitted, ReadOnly: true}} {
			p.tx(p.t.Context(), o, func(tx *sql.Tx) {
				p.every(tx, p.lane.plain)
				p.err("commit", tx.Commit())
			})
		}
	}},
	{"statement in a transaction", func(p *play) {
		st, err := p.db.Prepare(p.lane.plain)
		p.err("prepare", err)
		p.tx(p.t.Context(), nil, func(tx *sql.Tx) {
			rows, err := tx.Stmt(st).Query()
			p.rows(rows, err)
			p.err("rollback", tx.Rollback())
		})
		p.err("close", st.Close())
	}},
	{"transaction fails", func(p *play) {
		p.srv.inject("BEGIN", failBefore(&fakeError{"begin"}), nil)
		p.srv.inject("COMMIT", failAfter(&fakeError{"commit"}))
		p.srv.inject("ROLLBACK", failAfter(driver.ErrBadConn))
		p.tx(p.t.Context(), nil, nil)
		p.tx(p.t.Context(), nil, func(tx *sql.Tx) { p.err("commit", tx.Commit()) })
		p.tx(p.t.Context(), nil, func(tx *sql.Tx) { p.err("rollback", tx.Rollback()) })
		p.say("open %d", p.db.Stats().OpenConnections)
	}},
	{"transaction on an ended context", func(p *play) {
		ctx, cancel := context.WithCancel(p.t.Context())
		cancel()
		p.tx(ctx, nil, nil)
		_, err := p.conn.BeginTx(ctx, nil)
		p.err("begin", err)
	}},
	{"transaction is cancelled", func(p *play) {
		ctx, cancel := context.WithCancel(p.t.Context())
		p.tx(ctx, nil, func(tx *sql.Tx) {
			p.query(tx, p.lane.plain)
			cancel()
			synctest.Wait()
			p.err("commit", tx.Commit())
		})
		p.say("open %d", p.db.Stats().OpenConnections)
		p.query(p.db, p.lane.plain)
	}},
	{"ping", func(p *play) {
		p.err("ping", p.db.Ping())
		p.err("ping", p.conn.PingContext(p.t.Context()))
		if p.pings() {
			p.srv.inject("SELECT 0", failBefore(&fakeError{"ping"}))
		}
		p.err("ping", p.conn.PingContext(p.t.Context()))
	}},
	{"errors", func(p *play) {
		for range 4 {
			p.srv.inject(p.lane.one, failBefore(&fakeError{"before"}), failAfter(fmt.Errorf("around: %w", &fakeError{"after"})), failRow(0, &fakeError{"row 0"}), failRow(1, &fakeError{"row 1"}), failClose(&fakeError{"close"}))
			for range 5 {
				p.every(p.conn, p.lane.one, 7)
			}
		}
	}},
	{"prepare is skipped to", func(p *play) {
		p.srv.inject(p.lane.one, failBefore(driver.ErrSkip), nil, failBefore(driver.ErrSkip))
		p.query(p.conn, p.lane.one, 7)
		p.exec(p.conn, p.lane.one, 7)
		p.exec(p.conn, p.lane.one, 7)
	}},
	{"bad connection", func(p *play) {
		p.srv.inject(p.lane.plain, failBefore(driver.ErrBadConn), failBefore(fmt.Errorf("wrapped: %w", driver.ErrBadConn)), nil, failBefore(driver.ErrBadConn))
		p.query(p.db, p.lane.plain)
		p.exec(p.db, p.lane.plain)
		p.say("open %d", p.db.Stats().OpenConnections)
	}},
	{"bad pinned connection", func(p *play) {
		p.srv.inject(p.lane.one, failAfter(driver.ErrBadConn))
		p.query(p.conn, p.lane.one, 7)
		p.query(p.conn, p.lane.one, 7)
		p.say("open %d", p.db.Stats().OpenConnections)
	}},
	{"the session dies", func(p *play) {
		p.srv.inject(p.lane.plain, dies, nil, dies)
		p.query(p.db, p.lane.plain)
		p.prepared(p.db, p.lane.plain)
		p.say("open %d", p.db.Stats().OpenConnections)
	}},
	{"context has ended", func(p *play) {
		ctx, cancel := context.WithCancel(p.t.Context())
		cancel()
		_, err := p.db.QueryContext(ctx, p.lane.plain)
		p.err("query", err)
		_, err = p.conn.QueryContext(ctx, p.lane.one, 7)
		p.err("query", err)
		_, err = p.conn.ExecContext(ctx, p.lane.one, 7)
		p.err("exec", err)
		st, err := p.conn.PrepareContext(ctx, p.lane.one)
		if p.err("prepare", err); err == nil {
			p.err("close", st.Close())
		}
		st, err = p.conn.PrepareContext(p.t.Context(), p.lane.one)
		p.err("prepare", err)
		_, err = st.QueryContext(ctx, 7)
		p.err("query", err)
		_, err = st.ExecContext(ctx, 7)
		p.err("exec", err)
		p.err("close", st.Close())
	}},
	{"context ends during a call", func(p *play) {
		p.srv.inject(p.lane.one, hangs(true), hangs(false))
		for range 2 {
			ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
			_, err := p.conn.QueryContext(ctx, p.lane.one, 7)
			p.say("deadline %v", errors.Is(err, context.DeadlineExceeded))
			cancel()
		}
	}},
	{"context ends while rows are read", func(p *play) {
		ctx, cancel := context.WithCancel(p.t.Context())
		rows, err := p.conn.QueryContext(ctx, p.lane.one, 7)
		p.err("query", err)
		cancel()
		synctest.Wait()
		p.say("next %v", rows.Next())
		p.err("rows", rows.Err())
		p.err("close", rows.Close())
	}},
	{"panic", func(p *play) {
		p.srv.lenient = true // database/sql never gives back the connection of a call that panicked
		p.srv.inject(p.lane.plain, panics("the driver's own"))
		p.query(p.db, p.lane.plain)
	}},
	{"lifetime", func(p *play) {
		p.db.SetConnMaxLifetime(time.Minute)
		p.query(p.db, p.lane.plain)
		time.Sleep(2 * time.Minute) // on the bubble's clock
		p.query(p.db, p.lane.plain)
		p.say("open %d", p.db.Stats().OpenConnections)
	}},
	{"the driver says invalid", func(p *play) {
		p.query(p.db, p.lane.plain)
		p.srv.invalid.Store(true)
		p.query(p.db, p.lane.plain)
		p.say("open %d", p.db.Stats().OpenConnections)
		p.srv.invalid.Store(false)
		p.query(p.db, p.lane.plain)
	}},
}

// pings says whether the fake's own connection has a Ping: the guarded one always does.
func (p *play) pings() bool {
	return slices.ContainsFunc(p.srv.allCalls(), func(c string) bool { return strings.HasSuffix(c, "Conn.Ping") })
}

// perform runs a script and returns what its program saw, and then what the driver saw.
func perform(t *testing.T, shape fakeShape, lane fakeLane, script fakeScript, bare bool) (log []string) {
	synctest.Test(t, func(t *testing.T) {
		srv := newFakeServer(t)
		srv.bare = bare
		p := &play{t: t, srv: srv, db: srv.openDB(shape), lane: lane}
		p.act(script)
		p.err("db.Close", p.db.Close())
		log = append(append(p.log, "-- the driver:"), srv.allCalls()...)
		if n := srv.own(); n != 0 {
			t.Errorf("%d statements of the guard's own", n)
		}
	})
	return log
}

// act runs the script, and gives its pinned connection back clean.
func (p *play) act(script fakeScript) {
	defer func() {
		if v := recover(); v != nil {
			p.say("panic: %v", v)
		}
	}()
	var err error
	if p.conn, err = p.db.Conn(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	defer p.conn.Close()
	defer p.exec(p.conn, "SELECT pg_advisory_unlock_all()")
	script.run(p)
}

// The same program sees the same through a guarded driver as through the bare one, and so does the driver: the
// same calls in the same order, in the same form, with the same arguments. None is added.
func TestGuardedBehavesLikeBare(t *testing.T) {
	for _, shape := range fakeShapes {
		t.Run(shape.name, func(t *testing.T) {
			for _, lane := range fakeLanes {
				for _, script := range fakeScripts {
					t.Run(lane.name+"/"+script.name, func(t *testing.T) {
						bare := perform(t, shape, lane, script, true)
						guarded := perform(t, shape, lane, script, false)
						if d := firstDifference(bare, guarded); d != "" {
							t.Error(d)
						}
					})
				}
			}
		})
	}
}

func firstDifference(bare, guarded []string) string {
	for i := range max(len(bare), len(guarded)) {
		b, g := "(nothing)", "(nothing)"
		if i < len(bare) {
			b = bare[i]
		}
		if i < len(guarded) {
			g = guarded[i]
		}
		if b != g {
			return fmt.Sprintf("line %d differs\nbare:    %s\nguarded: %s\nbefore:\n%s", i, b, g, strings.Join(bare[max(0, i-6):min(i, len(bare))], "\n"))
		}
	}
	return ""
}

// inBubble runs f with a guarded pool on a fresh server, on the bubble's clock.
func inBubble(t *testing.T, opts []Option, f func(t *testing.T, srv *fakeServer, db *sql.DB)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := newFakeServer(t)
		f(t, srv, srv.openDB(modern, opts...))
	})
}

func pinned(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask runs a query of one value.
func ask(t *testing.T, h interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, text string, args ...any) (v any) {
	t.Helper()
	if err := h.QueryRowContext(t.Context(), text, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "sqllock: ") || !strings.Contains(got, want) {
			t.Errorf("panic %q, want one that starts with sqllock: and names %q", got, want)
		}
	}()
	f()
}

// What cannot work is said where it is registered, with the remedy, and leaves no name behind.
func TestWrapPanics(t *testing.T) {
	fake := &fakeDriver{shape: modern}
	pg := WithDialect(DialectPostgres)
	for _, c := range []struct {
		name, want string
		driver     driver.Driver
		opts       []Option
	}{
		{"nil driver", "pass the driver to guard", nil, nil},
		{"typed nil driver", "pass the driver to guard", (*fakeDriver)(nil), []Option{pg}},
		{"unknown driver", "WithDialect(DialectPostgres)", fake, nil},
		{"no such dialect", "use DialectPostgres or DialectMySQL", fake, []Option{WithDialect(9)}},
		{"guarded already", "wrap it once", Wrap(fake, pg), []Option{pg}},
		{"contradictory options", "choose one", fake, []Option{pg, WithPolicy(ReportOnly), WithProbe(ProbeAlways)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustPanic(t, c.want, func() { sql.Register("half-registered", Wrap(c.driver, c.opts...)) })
		})
	}
	if slices.Contains(sql.Drivers(), "half-registered") {
		t.Error("a driver that cannot work was registered")
	}
}

// What makes Wrap panic is the error of the first use of a pool that has no registration.
func TestOpenDBErrors(t *testing.T) {
	fake := &fakeDriver{shape: modern}
	connector := fakeConnector{fake}
	pg := WithDialect(DialectPostgres)
	for _, c := range []struct {
		name, want string
		connector  driver.Connector
		opts       []Option
	}{
		{"nil connector", "the connector is nil", nil, nil},
		{"typed nil connector", "the connector is nil", (*fakePointerConnector)(nil), nil},
		{"nil driver", "the driver is nil", fakePointerConnector{}, []Option{pg}},
		{"unknown driver", "WithDialect(DialectPostgres)", connector, nil},
		{"guarded already", "wrap it once", WrapConnector(connector, pg), []Option{pg}},
		{"contradictory options", "choose one", connector, []Option{pg, WithPolicy(ReportOnly), WithProbe(ProbeAlways)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			noLeaks(t)
			db := OpenDB(c.connector, c.opts...)
			for range 2 {
				if err := db.Ping(); err == nil || !strings.HasPrefix(err.Error(), "sqllock: ") || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %q, want one that starts with sqllock: and names %q", err, c.want)
				}
			}
			if _, err := ReadStats(db); !errors.Is(err, ErrNotGuarded) {
				t.Errorf("ReadStats: %v", err)
			}
			if db.Driver() == nil {
				t.Error("no driver")
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

type fakePointerConnector struct{}

func (fakePointerConnector) Connect(context.Context) (driver.Conn, error) { return nil, nil }
func (fakePointerConnector) Driver() driver.Driver                        { return nil }

// A data source name that the driver refuses is refused by sql.Open, as without the guard.
func TestOpenConnectorError(t *testing.T) {
	for _, bare := range []bool{true, false} {
		srv := newFakeServer(t)
		srv.bare = bare
		if _, err := sql.Open(srv.register(modern), "bad"); !errors.Is(err, errFakeCause) {
			t.Errorf("bare %v: %v", bare, err)
		}
	}
}

// Open is the way of programs that use a driver without a pool.
func TestDriverOpen(t *testing.T) {
	srv := newFakeServer(t)
	c, err := Wrap(&fakeDriver{srv, modern}, WithDialect(DialectPostgres)).Open("")
	if err != nil {
		t.Fatal(err)
	}
	st, err := c.Prepare("SELECT 1") //nolint:staticcheck // what such programs call
	if err != nil {
		t.Fatal(err)
	}
	tx, err := c.Begin() //nolint:staticcheck // what such programs call
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(st.Close(), tx.Commit(), c.Close()); err != nil {
		t.Error(err)
	}
}

// An ordinary statement is prepared to the driver's own statement, without anything around it, and so are its rows.
func TestDirectLaneIsTheDriversOwn(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *fakeServer, db *sql.DB) {
		err := pinned(t, db).Raw(func(dc any) error {
			st, err := dc.(driver.ConnPrepareContext).PrepareContext(t.Context(), "SELECT 1")
			if err != nil {
				return err
			}
			if _, own := st.(fakeContextStmt); !own {
				t.Errorf("the statement is a %T", st)
			}
			rows, err := dc.(driver.QueryerContext).QueryContext(t.Context(), "SELECT 1", nil)
			if err != nil {
				return err
			}
			if _, own := rows.(fakeFullRows); !own {
				t.Errorf("the rows are a %T", rows)
			}
			res, err := dc.(driver.ExecerContext).ExecContext(t.Context(), "SELECT 1", nil)
			if _, own := res.(fakeDone); !own {
				t.Errorf("the result is a %T", res)
			}
			return errors.Join(err, rows.Close(), st.Close())
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A transaction that its context cancelled on a pinned connection: without the guard, database/sql closes the handle
// unless the driver has both SessionResetter and Validator. The guard has both, so that the handle stays
// usable; the connection is discarded when it is given back, as it would have been.
func TestCancelledTxOnPinnedConn(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
		c := pinned(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := c.BeginTx(ctx, nil); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		ask(t, c, "SELECT 1")
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if n := db.Stats().OpenConnections; n != 0 {
			t.Errorf("%d connections open, want none", n)
		}
		if srv.own() != 0 || srv.kinds() != "" {
			t.Errorf("%d own statements, reports %s", srv.own(), srv.kinds())
		}
	})
}

// Unwrap gives the driver's own connection, and what is then done with it is asked for at the return.
func TestUnwrap(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
		c := pinned(t, db)
		unwrap := func(text string) {
			err := c.Raw(func(dc any) error {
				own, ok := Unwrap(dc).(driver.ExecerContext)
				if !ok {
					t.Fatalf("Unwrap: %T", Unwrap(dc))
				}
				_, err := own.ExecContext(t.Context(), text, nil)
				return err
			})
			if err := errors.Join(err, c.Close()); err != nil {
				t.Fatal(err)
			}
		}
		unwrap("SELECT 1")
		if srv.times(pgProbe) != 0 || srv.kinds() != "Unverified" {
			t.Errorf("after nothing: %d probes, reports %s", srv.times(pgProbe), srv.kinds())
		}
		c = pinned(t, db)
		unwrap("SELECT pg_advisory_lock(1)")
		if srv.held() != 0 {
			t.Error("a lock that was taken behind the guard's back is held")
		}
	})
	if Unwrap(nil) != nil || Unwrap(1) != nil {
		t.Error("Unwrap of no connection is not nil")
	}
	own := &fakeConn{}
	if Unwrap(own) != driver.Conn(own) || Unwrap(fakeWrapper{own}) != driver.Conn(own) {
		t.Error("Unwrap of a connection that is not guarded is another")
	}
}

// fakeWrapper is a wrapper like otelsql's.
type fakeWrapper struct{ driver.Conn }

func (w fakeWrapper) Raw() driver.Conn { return w.Conn }

func noLeaks(t *testing.T) {
	t.Helper()
	already := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, already) })
}
