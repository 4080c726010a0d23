package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/DATA-DOG/go-sqlmock"
)

// here returns the caller's stack, and its place as a report spells it.
func here() (stack []uintptr, place string) {
	var pcs [8]uintptr
	n := runtime.Callers(2, pcs[:])
	pc, file, line, _ := runtime.Caller(1)
	return pcs[:n], fmt.Sprintf("%s (%s:%d)", runtime.FuncForPC(pc).Name(), file, line)
}

// nextLine is the place of the line after the call.
func nextLine() string {
	pc, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s (%s:%d)", runtime.FuncForPC(pc).Name(), file, line+1)
}

// Each kind's text: what happened, the place, the thing, and the remedy.
func TestReportText(t *testing.T) {
	stack, place := here()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one := Hold{Kind: "advisory lock", Key: "42", Count: 1, Since: now.Add(-1500 * time.Millisecond), Statement: "SELECT pg_advisory_lock($1)", Stack: stack, Conn: 3}
	two := Hold{Kind: "named lock", Key: "jobs.nightly", Shared: true, Count: 2, Since: now, Statement: "SELECT GET_LOCK(?, 1)", Conn: 4}
	for _, c := range []struct {
		name string
		r    Report
		want string
	}{
		{"Leak", Report{Kind: Leak, Action: Discarded, Holds: []Hold{one, two}, Statement: one.Statement, Stack: stack}, `
sqllock: a connection came back to the pool still holding a session lock: discarded
  advisory lock 42 (exclusive), connection 3, taken 1.5s ago by "SELECT pg_advisory_lock($1)"
    at PLACE
  named lock jobs.nightly (shared, held 2 times), connection 4, taken 0s ago by "SELECT GET_LOCK(?, 1)"
  remedy: release the lock on the same connection before it goes back, on every way out; sqllock's lockers do`},
		{"Leak, reset", Report{Kind: Leak, Action: ResetKept}, `
sqllock: a connection came back to the pool still holding a session lock: reset
  remedy: release the lock on the same connection before it goes back, on every way out; sqllock's lockers do`},
		{"Unverified", Report{Kind: Unverified, Action: Discarded, Statement: "BEGIN", Stack: stack, Err: context.DeadlineExceeded}, `
sqllock: a connection came back to the pool in a state that could not be verified: discarded
  statement: "BEGIN"
    at PLACE
  error: context deadline exceeded
  remedy: send lock calls in a plain form (SELECT one call, read its row), and end transactions that text began; WithProbe settles the rest`},
		{"MisplacedUnlock", Report{Kind: MisplacedUnlock, Key: "42", Statement: "SELECT pg_advisory_unlock($1)", Stack: stack, Holds: []Hold{one}}, `
sqllock: an unlock of "42" released nothing: this session does not hold it
  advisory lock 42 (exclusive), connection 3, taken 1.5s ago by "SELECT pg_advisory_lock($1)"
    at PLACE
  statement: "SELECT pg_advisory_unlock($1)"
    at PLACE
  remedy: take and release on one pinned connection (*sql.Conn): a pool gives each call another session`},
		{"TxLockOutsideTx", Report{Kind: TxLockOutsideTx, Key: "42", Statement: "SELECT pg_advisory_xact_lock(42)"}, `
sqllock: a transaction lock was taken outside of a transaction: it was released before the call returned
  statement: "SELECT pg_advisory_xact_lock(42)"
  remedy: take it on a *sql.Tx, or use sqllock.RunExclusive`},
		{"SessionDied", Report{Kind: SessionDied, Action: Discarded, Holds: []Hold{two}, Err: driver.ErrBadConn}, `
sqllock: a session ended while it held a lock: the lock is lost
  named lock jobs.nightly (shared, held 2 times), connection 4, taken 0s ago by "SELECT GET_LOCK(?, 1)"
  error: driver: bad connection
  remedy: treat the protected work as unprotected from this moment; Lock.Context tells a holder at once`},
		{"ValidatorHidden", Report{Kind: ValidatorHidden}, `
sqllock: a wrapper around the guarded driver hides its IsValid: leaks are found only when a connection is next used
  remedy: wrap the other way round, sqllock outermost, or forward driver.Validator`},
		{"HeldTooLong", Report{Kind: HeldTooLong, Holds: []Hold{one}, Statement: one.Statement}, `
sqllock: a lock is held longer than the limit
  advisory lock 42 (exclusive), connection 3, taken 1.5s ago by "SELECT pg_advisory_lock($1)"
    at PLACE
  statement: "SELECT pg_advisory_lock($1)"
  remedy: look at the place above: a release is missing, or the work takes longer than expected`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r.Time = now
			want := strings.ReplaceAll(strings.TrimPrefix(c.want, "\n"), "PLACE", place)
			if got := c.r.String(); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestShorten(t *testing.T) {
	long := strings.Repeat("x", maxStatement)
	for _, c := range []struct{ name, text, want string }{
		{"short", "SELECT 1", "SELECT 1"},
		{"empty", "", ""},
		{"white space", "\n\tSELECT\r\n   1  ", "SELECT 1"},
		{"just fits", long, long},
		{"cut", long + "y", long + "…"},
		{"cut before a rune", long[1:] + "é", long[1:] + "…"},
		{"invalid UTF-8", "SELECT '\xff'", "SELECT '\uFFFD'"},
		{"very long", strings.Repeat("SELECT  1; ", 10_000), strings.Repeat("SELECT 1; ", maxStatement/10) + "…"},
		{"very long, cut inside of a rune", "x" + strings.Repeat("é", maxStatement*4), "x" + strings.Repeat("é", maxStatement/2-1) + "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := shorten(c.text)
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if len(got) > maxStatement+len("…") || !utf8.ValidString(got) {
				t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
			}
		})
	}
}

// Place names the line of the program, whichever way the statement went.
func TestPlaceIsTheUsersLine(t *testing.T) {
	const text = "SELECT pg_advisory_lock(1)"
	for _, c := range []struct {
		name string
		send func(t *testing.T, c *sql.Conn) (place string)
	}{
		{"query row", func(t *testing.T, c *sql.Conn) string {
			var v any
			place := nextLine()
			err := c.QueryRowContext(t.Context(), text).Scan(&v)
			return must(t, place, err)
		}},
		{"query", func(t *testing.T, c *sql.Conn) string {
			place := nextLine()
			rows, err := c.QueryContext(t.Context(), text)
			return must(t, place, drainRows(rows, err))
		}},
		{"exec", func(t *testing.T, c *sql.Conn) string {
			place := nextLine()
			_, err := c.ExecContext(t.Context(), text)
			return must(t, place, err)
		}},
		{"prepared", func(t *testing.T, c *sql.Conn) string {
			st, err := c.PrepareContext(t.Context(), text)
			must(t, "", err)
			defer st.Close()
			place := nextLine()
			_, err = st.Exec()
			return must(t, place, err)
		}},
		{"prepared in a transaction", func(t *testing.T, c *sql.Conn) string {
			tx, err := c.BeginTx(t.Context(), nil)
			must(t, "", err)
			st, err := tx.PrepareContext(t.Context(), text)
			must(t, "", err)
			place := nextLine()
			err = drainRows(st.Query())
			return must(t, place, errors.Join(err, tx.Commit()))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
				conn := pinnedTo(t, db)
				want := c.send(t, conn)
				_ = conn.Close()
				r := srv.allReports()[0]
				if r.Place() != want || r.Holds[0].Place() != want {
					t.Errorf("places %s and %s, want %s", r.Place(), r.Holds[0].Place(), want)
				}
			})
		})
	}
	if p := (Report{}).Place() + (Hold{}).Place(); p != "" {
		t.Errorf("without a stack: %q", p)
	}
}

func must(t *testing.T, v string, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What makes each kind of report, and what is in it.
func TestReportKinds(t *testing.T) {
	for _, c := range []struct {
		name    string
		program func(t *testing.T, srv *fakeServer, db *sql.DB)
		want    string // the reports, without place and remedy
	}{
		{"unlock on another connection", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			a, b := pinnedTo(t, db), pinnedTo(t, db)
			ask(t, a, "SELECT pg_advisory_lock($1)", 5)
			ask(t, b, "SELECT pg_advisory_unlock($1)", 5)
			ask(t, a, "SELECT pg_advisory_unlock($1)", 5)
		}, "MisplacedUnlock kept 5 [1: advisory lock 5 (exclusive)] SELECT pg_advisory_unlock($1)"},
		{"shared unlock of an exclusive lock", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			a, b := pinnedTo(t, db), pinnedTo(t, db)
			ask(t, a, "SELECT pg_advisory_lock(5, 6)")
			ask(t, b, "SELECT pg_advisory_unlock_shared(5, 6)")
			ask(t, a, "SELECT pg_advisory_unlock(5, 6)")
		}, "MisplacedUnlock kept 5,6 [1: advisory lock 5,6 (exclusive)] SELECT pg_advisory_unlock_shared(5, 6)"},
		{"unlock of what nobody holds", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			ask(t, db, "SELECT pg_advisory_unlock(5)")
		}, "MisplacedUnlock kept 5 [] SELECT pg_advisory_unlock(5)"},
		{"unlock in the other key space", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(0, 5)")
			ask(t, c, "SELECT pg_advisory_unlock(5)")
			ask(t, c, "SELECT pg_advisory_unlock(0, 5)")
		}, "MisplacedUnlock kept 5 [] SELECT pg_advisory_unlock(5)"},
		{"transaction lock in autocommit", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			ask(t, db, "SELECT pg_advisory_xact_lock(5)")
		}, "TxLockOutsideTx kept 5 [] SELECT pg_advisory_xact_lock(5)"},
		{"transaction lock in a statement of another form", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			ask(t, db, "SELECT pg_advisory_xact_lock(5) FROM generate_series(1, 3)")
		}, "TxLockOutsideTx kept  [] SELECT pg_advisory_xact_lock(5) FROM generate_series(1, 3)"},
		{"busy transaction lock in autocommit", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(5)")
			ask(t, db, "SELECT pg_try_advisory_xact_lock(5)")
			ask(t, c, "SELECT pg_advisory_unlock(5)")
		}, ""},
		{"transaction lock in transactions", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			tx, err := db.Begin()
			must(t, "", err)
			ask(t, tx, "SELECT pg_advisory_xact_lock(5)")
			must(t, "", tx.Commit())
			c := pinnedTo(t, db)
			for _, text := range []string{"BEGIN", "SELECT pg_advisory_xact_lock(5)", "COMMIT"} {
				_, err := c.ExecContext(t.Context(), text)
				must(t, "", err)
			}
		}, ""},
		{"session dies", func(t *testing.T, srv *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(5)")
			srv.inject("SELECT 1", dies)
			if err := drainRows(c.QueryContext(t.Context(), "SELECT 1")); !errors.Is(err, driver.ErrBadConn) {
				t.Error(err)
			}
		}, "SessionDied discarded  [1: advisory lock 5 (exclusive)] "},
		{"session dies, executing", func(t *testing.T, srv *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(5)")
			srv.inject("SELECT 1", dies)
			if _, err := c.ExecContext(t.Context(), "SELECT 1"); !errors.Is(err, driver.ErrBadConn) {
				t.Error(err)
			}
		}, "SessionDied discarded  [1: advisory lock 5 (exclusive)] "},
		{"session dies in a lock statement", func(t *testing.T, srv *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(5)")
			srv.inject("SELECT pg_advisory_unlock(5)", dies)
			if err := drainRows(c.QueryContext(t.Context(), "SELECT pg_advisory_unlock(5)")); !errors.Is(err, driver.ErrBadConn) {
				t.Error(err)
			}
		}, "SessionDied discarded  [1: advisory lock 5 (exclusive)] "},
		{"session dies in a transaction", func(t *testing.T, srv *fakeServer, db *sql.DB) {
			tx, err := db.Begin()
			must(t, "", err)
			ask(t, tx, "SELECT pg_advisory_lock(5)")
			srv.inject("COMMIT", dies)
			if err := tx.Commit(); !errors.Is(err, driver.ErrBadConn) {
				t.Error(err)
			}
		}, "SessionDied discarded  [1: advisory lock 5 (exclusive)] "},
		{"session dies unnoticed until the ping", func(t *testing.T, srv *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(5)")
			srv.inject("SELECT 0", dies)
			if err := c.PingContext(t.Context()); !errors.Is(err, driver.ErrBadConn) {
				t.Error(err)
			}
		}, "SessionDied discarded  [1: advisory lock 5 (exclusive)] "},
		{"connection given up on purpose", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(5)")
			_ = c.Raw(func(any) error { return driver.ErrBadConn })
		}, "SessionDied discarded  [1: advisory lock 5 (exclusive)] "},
		{"unverified", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(5)")
			_, err := c.ExecContext(t.Context(), "BEGIN")
			must(t, "", err)
			must(t, "", c.Close())
		}, "Unverified discarded  [1: advisory lock 5 (exclusive)] BEGIN"},
		{"transaction opened among several statements", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			_, err := db.Exec("SELECT 1; BEGIN")
			must(t, "", err)
		}, "Unverified discarded  [] SELECT 1; BEGIN"},
		{"leak that only the probe knows", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			ask(t, db, "SELECT pg_advisory_lock(5) FROM generate_series(1, 3)")
		}, "Leak discarded  [1: advisory lock 5 (exclusive)] SELECT pg_advisory_lock(5) FROM generate_series(1, 3)"},
		{"leak of negative, paired and shared keys", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			must(t, "", drainRows(db.Query("SELECT pg_advisory_lock(-5), pg_advisory_lock_shared(-6), pg_advisory_lock(-7,-8)")))
		}, "Leak discarded  [1: advisory lock -5 (exclusive) 1: advisory lock -6 (shared) 1: advisory lock -7,-8 (exclusive)] SELECT pg_advisory_lock(-5), pg_advisory_lock_shared(-6), pg_advisory_lock(-7,-8)"},
		{"leak of a stacked lock", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			for range 3 {
				ask(t, c, "SELECT pg_advisory_lock(5)")
			}
			ask(t, c, "SELECT pg_advisory_unlock(5)")
			must(t, "", c.Close())
		}, "Leak discarded  [1: advisory lock 5 (exclusive, held 2 times)] SELECT pg_advisory_lock(5)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
				c.program(t, srv, db)
				var got []string
				for _, r := range srv.allReports() {
					got = append(got, summary(r))
				}
				if strings.HasPrefix(c.want, "SessionDied") && !strings.Contains(c.name, "on purpose") && srv.own() != 0 {
					t.Errorf("%d statements of the guard's own to a dead session", srv.own())
				}
				if s := strings.Join(got, "\n"); s != c.want {
					t.Errorf("reports\n%s\nwant\n%s", s, c.want)
				}
			})
		})
	}
}

func summary(r Report) string {
	holds := make([]string, 0, len(r.Holds))
	for _, h := range r.Holds {
		holds = append(holds, fmt.Sprintf("%d: %s", h.Conn, h))
	}
	slices.Sort(holds)
	return fmt.Sprintf("%v %v %s [%s] %s", r.Kind, r.Action, r.Key, strings.Join(holds, " "), r.Statement)
}

// hidingConnector is a wrapper around the guarded driver that knows nothing of driver.Validator.
type hidingConnector struct{ driver.Connector }

func (c hidingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	own, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return struct {
		driver.Conn
		driver.QueryerContext
		driver.SessionResetter
	}{own, own.(driver.QueryerContext), own.(driver.SessionResetter)}, nil
}

func knownConns(t *testing.T, db *sql.DB) []*conn {
	p, err := poolOf(db)
	must(t, "", err)
	return p.list()
}

// Where IsValid is hidden, a leak is found when the connection is next taken: it is said once, and nobody gets it.
func TestValidatorHidden(t *testing.T) {
	noLeaks(t)
	srv := newFakeServer(t)
	guarded := WrapConnector(fakeConnector{&fakeDriver{srv, modern}}, WithDialect(DialectPostgres), WithReport(srv.report))
	db := sql.OpenDB(hidingConnector{guarded})
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	for want := int64(1); want <= 3; want++ {
		ask(t, db, "SELECT pg_advisory_lock(5)") // nothing can be done about it now
		if pid := ask(t, db, "SELECT pg_backend_pid()"); pid != want+1 {
			t.Errorf("session %v, want %d", pid, want+1)
		}
		if n := srv.held(); n != 0 {
			t.Errorf("%d locks are held", n)
		}
	}
	if got, want := srv.kinds(), "ValidatorHidden Leak Leak Leak"; got != want {
		t.Errorf("reports %s, want %s", got, want)
	}
}

// Hidden or not, a connection whose transaction was cancelled is not used again, as without the guard.
func TestValidatorHiddenAfterCancelledTx(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *fakeServer, _ *sql.DB) {
		guarded := WrapConnector(fakeConnector{&fakeDriver{srv, modern}}, WithDialect(DialectPostgres), WithReport(srv.report))
		c, err := guarded.Connect(t.Context())
		must(t, "", err)
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := c.(driver.ConnBeginTx).BeginTx(ctx, driver.TxOptions{})
		must(t, "", err)
		cancel()
		must(t, "", tx.Rollback())
		if err := c.(driver.SessionResetter).ResetSession(t.Context()); !errors.Is(err, driver.ErrBadConn) {
			t.Errorf("ResetSession: %v", err)
		}
		must(t, "", c.Close())
	})
}

// What IsValid has said once, it says again.
func TestIsValidTwice(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *fakeServer, _ *sql.DB) {
		guarded := WrapConnector(fakeConnector{&fakeDriver{srv, modern}}, WithDialect(DialectPostgres), WithReport(srv.report))
		c, err := guarded.Connect(t.Context())
		must(t, "", err)
		v := c.(driver.Validator)
		for range 2 {
			if !v.IsValid() {
				t.Error("a clean connection is invalid")
			}
		}
		_, err = c.(driver.ExecerContext).ExecContext(t.Context(), "SELECT pg_advisory_lock(5)", nil)
		must(t, "", err)
		for range 2 {
			if v.IsValid() {
				t.Error("a connection that leaked is valid")
			}
		}
		if err := c.(driver.SessionResetter).ResetSession(t.Context()); !errors.Is(err, driver.ErrBadConn) {
			t.Errorf("ResetSession: %v", err)
		}
		must(t, "", c.Close())
		if got := srv.kinds(); got != "Leak" {
			t.Errorf("reports %s, want one", got)
		}
	})
}

// A session that the driver itself calls invalid is not asked, and its locks are lost.
func TestDriverSaysInvalid(t *testing.T) {
	noLeaks(t)
	srv := newFakeServer(t)
	db := srv.openDB(everything)
	c := pinnedTo(t, db)
	ask(t, c, "SELECT pg_advisory_lock(5)")
	srv.invalid.Store(true)
	must(t, "", c.Close())
	if got := srv.kinds(); got != "SessionDied" || srv.own() != 0 {
		t.Errorf("reports %s, %d statements of the guard's own", got, srv.own())
	}
	if n := db.Stats().OpenConnections; n != 0 {
		t.Errorf("%d connections open", n)
	}
}

// Two pools of one driver name have nothing to do with each other; a pool that is not guarded has no counts.
func TestStatsAndHeldArePerPool(t *testing.T) {
	noLeaks(t)
	srv := newFakeServer(t)
	name := srv.register(modern)
	pools := [2]*sql.DB{}
	for i := range pools {
		db, err := sql.Open(name, "")
		must(t, "", err)
		t.Cleanup(func() { _ = db.Close() })
		pools[i] = db
	}
	c := pinnedTo(t, pools[0])
	ask(t, c, "SELECT pg_advisory_lock(5)")
	ask(t, c, "SELECT pg_advisory_lock(5)")
	ask(t, pinnedTo(t, pools[0]), "SELECT pg_try_advisory_lock_shared(6)")
	ask(t, pools[1], "SELECT pg_advisory_unlock(5)") // the other pool does not know who holds it

	held, err := Held(pools[0])
	if err != nil || len(held) != 2 || held[0].Key != "5" || held[0].Count != 2 || held[0].Conn != 1 || held[1].Key != "6" || !held[1].Shared || held[1].Conn != 2 {
		t.Errorf("held %v, %v", held, err)
	}
	if held, err := Held(pools[1]); err != nil || len(held) != 0 {
		t.Errorf("held by the other pool: %v, %v", held, err)
	}
	if r := srv.allReports(); len(r) != 1 || r[0].Kind != MisplacedUnlock || len(r[0].Holds) != 0 {
		t.Errorf("reports %v", r)
	}
	want := [2]Stats{{LocksHeld: 2, LocksAcquired: 3}, {Reports: 1}}
	for i, db := range pools {
		if got, err := ReadStats(db); err != nil || got != want[i] {
			t.Errorf("pool %d: %+v, %v; want %+v", i, got, err, want[i])
		}
	}
	ask(t, c, "SELECT pg_advisory_unlock_all()")
	if got, _ := ReadStats(pools[0]); got != (Stats{LocksHeld: 1, LocksAcquired: 3, LocksReleased: 2}) {
		t.Errorf("after the release: %+v", got)
	}
	ask(t, pools[1], "SELECT pg_try_advisory_lock(7)") // leaks
	if held, _ := Held(pools[1]); len(held) != 0 || len(knownConns(t, pools[1])) != 0 {
		t.Errorf("after a leak: %v held, %d connections known", held, len(knownConns(t, pools[1])))
	}
	srv.bare = true
	plain := srv.openDB(modern)
	if _, err := ReadStats(plain); !errors.Is(err, ErrNotGuarded) {
		t.Errorf("ReadStats of a plain pool: %v", err)
	}
	if _, err := Held(plain); !errors.Is(err, ErrNotGuarded) {
		t.Errorf("Held of a plain pool: %v", err)
	}
	srv.bare = false
}

// A library's frames are only named where the program has none of its own.
func TestPlacePrefersTheProgram(t *testing.T) {
	for _, c := range []struct {
		file string
		want bool
	}{
		{"/home/me/go/pkg/mod/gorm.io/gorm@v1.25.0/callbacks.go", true},
		{"/src/app/vendor/gorm.io/gorm/callbacks.go", true},
		{"/src/app/vendors/list.go", false},
		{"/src/app/main.go", false},
	} {
		if got := isLibrary(c.file); got != c.want {
			t.Errorf("%s: library %v", c.file, got)
		}
	}
	var inLibrary, inProgram []uintptr
	sqlmock.QueryMatcherFunc(func(string, string) error { // this is called from a library's file
		inProgram = callers()
		return nil
	}).Match("", "")
	inLibrary = inProgram[1:2] // sqlmock's own frame, behind the function's
	if p := place(inLibrary); !strings.Contains(p, "sqlmock.QueryMatcherFunc.Match") {
		t.Errorf("nothing but a library: %q", p)
	}
	if p := place(slices.Concat(inLibrary, inProgram)); !strings.Contains(p, "TestPlacePrefersTheProgram") {
		t.Errorf("a library, then the program: %q", p)
	}
}

//go:noinline
func callers() []uintptr {
	var pcs [16]uintptr
	return pcs[:runtime.Callers(2, pcs[:])]
}
