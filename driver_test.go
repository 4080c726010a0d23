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

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

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

func pinnedTo(t *testing.T, db *sql.DB) *sql.Conn {
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
		err := pinnedTo(t, db).Raw(func(dc any) error {
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
		c := pinnedTo(t, db)
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
		c := pinnedTo(t, db)
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
		c = pinnedTo(t, db)
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

// A key is read from an argument only where what the driver sends is beyond doubt.
func TestKeysInArguments(t *testing.T) {
	type own int16
	const unreadable = "(unreadable)"
	for _, c := range []struct {
		d    Dialect
		arg  any
		want string
	}{
		{DialectPostgres, int64(-7), "-7"},
		{DialectPostgres, uint32(7), "7"},
		{DialectPostgres, own(7), "7"},
		{DialectPostgres, " 007 ", "7"},
		{DialectPostgres, []byte("7"), "7"},
		{DialectPostgres, "seven", unreadable},
		{DialectPostgres, 7.0, unreadable},
		{DialectPostgres, nil, unreadable},
		{DialectPostgres, true, unreadable},
		{DialectPostgres, sql.NullInt64{Int64: 7, Valid: true}, unreadable},
		{DialectPostgres, valuerInt(7), unreadable},
		{DialectPostgres, struct{}{}, unreadable},
		{DialectMySQL, "Jobs ", "Jobs "},
		{DialectMySQL, []byte("jobs"), "jobs"},
		{DialectMySQL, nil, unreadable},
	} {
		t.Run(fmt.Sprintf("%v/%T(%v)", c.d, c.arg, c.arg), func(t *testing.T) {
			s := statement{verb: verbTry, nkeys: 1}
			s.keys[0].param = 1
			k, ok := keyOf(c.d, s, []driver.NamedValue{{Ordinal: 1, Value: c.arg}})
			if !ok {
				k.name = unreadable
			}
			if k.name != c.want {
				t.Errorf("key %q, want %q", k.name, c.want)
			}
		})
	}
	s := statement{verb: verbTry, nkeys: 2}
	s.keys = [2]operand{{param: 2}, {param: 1}}
	args := []driver.NamedValue{{Ordinal: 1, Value: pgx.QueryExecModeExec}, {Ordinal: 2, Value: int64(1)}, {Ordinal: 3, Value: int64(2)}}
	if k, ok := keyOf(DialectPostgres, s, args); !ok || k.name != "2,1" {
		t.Errorf("behind an option of pgx: %q, %v", k.name, ok)
	}
	if _, ok := keyOf(DialectPostgres, s, args[:2]); ok {
		t.Error("a key was read from an argument that is not there")
	}
	args[1].Name = "k"
	if _, ok := keyOf(DialectPostgres, s, args); ok {
		t.Error("a key was read from a named argument")
	}
}

// valuerInt is an integer that is sent as something else.
type valuerInt int

func (v valuerInt) Value() (driver.Value, error) { return int64(v) + 1, nil }
