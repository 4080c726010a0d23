package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sqllock/sqllock/internal/native"
)

// The guard's own statements go the way that a driver has, and the plain forms need none, whatever it has.
func TestGuardOnEveryShape(t *testing.T) {
	on := func(t *testing.T, shape fakeShape, policy Policy, text, after string) (srv *fakeServer, kept bool) {
		synctest.Test(t, func(t *testing.T) {
			srv = newFakeServer(t)
			db := srv.openDB(shape, WithPolicy(policy))
			c := pinnedTo(t, db)
			srv.inject(text, failBefore(driver.ErrSkip)) // an error, where nothing skips
			for _, q := range []string{text, text, after} {
				_ = drainRows(c.QueryContext(t.Context(), q))
			}
			_ = c.Close()
			kept = db.Stats().OpenConnections == 1
			if n := srv.held(); n != 0 {
				t.Errorf("%d locks are held", n)
			}
		})
		return srv, kept
	}
	const lock, unlock, all = "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)", "SELECT pg_advisory_unlock_all()"
	const doubt = "SELECT pg_advisory_lock(1) FROM generate_series(1, 3)"
	for _, shape := range fakeShapes {
		for _, c := range []struct {
			name        string
			policy      Policy
			text, after string
			kept        bool
			reports     string
		}{
			{"clean", Discard, lock, all, true, ""},
			{"leak", Discard, lock, "SELECT 1", false, "Leak"},
			{"leak, reset", Reset, lock, "SELECT 1", true, "Leak"},
			{"doubt", Discard, doubt, unlock, false, "Leak"},
			{"doubt, reset", Reset, doubt, unlock, true, "Leak"},
		} {
			t.Run(shape.name+"/"+c.name, func(t *testing.T) {
				srv, kept := on(t, shape, c.policy, c.text, c.after)
				if got := srv.kinds(); got != c.reports || kept != c.kept {
					t.Errorf("reports %q, kept %v; want %q, %v", got, kept, c.reports, c.kept)
				}
				if c.reports == "" && srv.own() != 0 {
					t.Errorf("%d statements of the guard's own", srv.own())
				}
			})
		}
	}
}

// A skipped call did nothing: it leaves no doubt behind.
func TestSkippedIsNoDoubt(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
		const try = "SELECT pg_try_advisory_lock(1)"
		srv.inject(try, failBefore(driver.ErrSkip), refuses)
		if granted := ask(t, db, try); granted != false || srv.own() != 0 {
			t.Errorf("granted %v, %d statements of the guard's own", granted, srv.own())
		}
	})
}

// Keys and texts that the guard cannot read are asked for.
func TestUnreadableArguments(t *testing.T) {
	for _, c := range []struct {
		name, text string
		arg        any
		want       string
	}{
		{"key of the driver's own type", "SELECT pg_advisory_lock($1)", fakeRaw{"7"}, "Leak discarded  [1: advisory lock 7 (exclusive)] SELECT pg_advisory_lock($1)"},
		{"no key at all", "SELECT pg_advisory_lock($1)", nil, ""},
		{"another text", "SELECT 1", fakeRewriter{"SELECT pg_advisory_lock(7)"}, "Unverified discarded "},
		{"another, harmless text", "SELECT 1", fakeRewriter{"SELECT 2"}, "Unverified discarded "},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newFakeServer(t)
				ask(t, srv.openDB(everything), c.text, c.arg)
				var got string
				for _, r := range srv.allReports() {
					got += summary(r)
				}
				if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" || srv.held() != 0 {
					t.Errorf("reports %q, want %q; %d locks held", got, c.want, srv.held())
				}
			})
		})
	}
}

// A statement inside of Raw that never came to its end may have done anything.
func TestUnfinishedStatements(t *testing.T) {
	const lock = "SELECT pg_advisory_lock(1)"
	for _, c := range []struct {
		name string
		use  func(ctx context.Context, dc any)
	}{
		{"rows left open", func(ctx context.Context, dc any) {
			_, _ = dc.(driver.QueryerContext).QueryContext(ctx, lock, nil)
		}},
		{"the driver panics", func(ctx context.Context, dc any) {
			defer func() { _ = recover() }()
			_, _ = dc.(driver.ExecerContext).ExecContext(ctx, lock, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
				srv.lenient = true
				if c.name == "the driver panics" {
					srv.inject(lock, panics("the driver's own"))
				}
				conn := pinnedTo(t, db)
				_ = conn.Raw(func(dc any) error { c.use(t.Context(), dc); return nil })
				_ = conn.Close()
				if got := srv.kinds(); srv.held() != 0 || got != "Unverified" {
					t.Errorf("%d locks held, reports %q", srv.held(), got)
				}
			})
		})
	}
}

// A waiter for a connection gets a fresh one, and the lock is free before it does.
func TestLeakIsFreeBeforeTheNextUse(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
		db.SetMaxOpenConns(1)
		c := pinnedTo(t, db)
		ask(t, c, "SELECT pg_advisory_lock(1)")
		got := make(chan any)
		go func() { got <- ask(t, db, "SELECT pg_backend_pid()") }()
		synctest.Wait() // it waits for the only connection
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if pid := <-got; pid != int64(2) {
			t.Errorf("the waiter is on session %v", pid)
		}
		if srv.held() != 0 {
			t.Error("the lock is held")
		}
	})
}

// What user code does with its goroutine makes no difference.
func TestUserCodePanicsAndGoexits(t *testing.T) {
	take := func(t *testing.T, db *sql.DB, then func()) {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		ask(t, c, "SELECT pg_advisory_lock(1)")
		then()
	}
	raw := func(t *testing.T, db *sql.DB, then func()) {
		take(t, db, func() {
			c, _ := db.Conn(t.Context())
			defer c.Close()
			ask(t, c, "SELECT pg_advisory_lock(2)")
			_ = c.Raw(func(any) error { then(); return nil })
		})
	}
	tx := func(t *testing.T, db *sql.DB, then func()) {
		tx, err := db.Begin()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = tx.Rollback() }()
		ask(t, tx, "SELECT pg_advisory_lock(1)")
		then()
	}
	for _, c := range []struct {
		name    string
		program func(*testing.T, *sql.DB, func())
		then    func()
		want    string
	}{
		{"panic", take, func() { panic("user") }, "Leak"},
		{"Goexit", take, runtime.Goexit, "Leak"},
		{"panic in Raw", raw, func() { panic("user") }, "SessionDied Leak"},
		{"Goexit in Raw", raw, runtime.Goexit, "SessionDied Leak"},
		{"panic in a transaction", tx, func() { panic("user") }, "Leak"},
		{"Goexit in a transaction", tx, runtime.Goexit, "Leak"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					c.program(t, db, c.then)
				}()
				<-done
				if srv.held() != 0 || db.Stats().InUse != 0 {
					t.Errorf("%d locks held, %d connections in use", srv.held(), db.Stats().InUse)
				}
				if got := srv.kinds(); got != c.want {
					t.Errorf("reports %q, want %q", got, c.want)
				}
			})
		})
	}
}

// fakeNative is a connection whose driver has an adapter, as pgx has pgxlock.
type fakeNative struct {
	*fakeConn
	fakeQueryerCtx
	fakeExecerCtx
}

func init() {
	native.Register(func(c driver.Conn) (native.Abilities, bool) {
		own, ok := c.(fakeNative)
		if !ok {
			return native.Abilities{}, false
		}
		s := own.session
		read := func(b *bool) func() bool {
			return func() bool {
				s.srv.mu.Lock()
				defer s.srv.mu.Unlock()
				return *b
			}
		}
		return native.Abilities{
			InTransaction: read(&s.tx), Dead: read(&s.ended),
			Terminate: func(context.Context) error { own.note("Terminate", "", nil); return nil },
			PlainArgs: []driver.NamedValue{{Ordinal: 1, Value: "plain"}},
		}, true
	})
}

var withAdapter = fakeShape{name: "with an adapter", conn: func(c *fakeConn) driver.Conn {
	return fakeNative{c, fakeQueryerCtx{c}, fakeExecerCtx{c}}
}}

// What the driver's adapter can tell is not asked for, and what it can do is done.
func TestAdapter(t *testing.T) {
	for _, c := range []struct {
		name    string
		program func(t *testing.T, srv *fakeServer, c *sql.Conn)
		reports string
		calls   []string // the end of what the driver saw
	}{
		{"manual transaction, ended unseen", func(t *testing.T, srv *fakeServer, c *sql.Conn) {
			_, err := c.ExecContext(t.Context(), "BEGIN")
			must(t, "", err)
			srv.session(1).setTx(false)
		}, "", []string{`1 Conn.ExecContext "BEGIN" []`}},
		{"manual transaction, opened unseen", func(_ *testing.T, srv *fakeServer, _ *sql.Conn) {
			srv.session(1).setTx(true)
		}, `Unverified discarded  [] a transaction that is still open`, []string{
			`1 Conn.ExecContext "ROLLBACK" [1:string(plain)]`, `1 Conn.ExecContext "SELECT pg_catalog.pg_advisory_unlock_all()" [1:string(plain)]`, `1 Terminate`, `1 Conn.Close`,
		}},
		{"session ended unseen", func(t *testing.T, srv *fakeServer, c *sql.Conn) {
			ask(t, c, "SELECT pg_advisory_lock(5)")
			srv.session(1).end()
			srv.bare = true // it cannot know that this is going to be reported
		}, "SessionDied discarded  [1: advisory lock 5 (exclusive)] ", []string{`1 Rows.Close`, `1 Conn.Close`}},
		{"unwrapped", func(_ *testing.T, _ *fakeServer, c *sql.Conn) {
			_ = c.Raw(func(dc any) error { Unwrap(dc); return nil })
		}, "", []string{fmt.Sprintf(`1 Conn.QueryContext %q [1:string(plain)]`, pgProbe), `1 Rows.Close`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newFakeServer(t)
				conn := pinnedTo(t, srv.openDB(withAdapter))
				c.program(t, srv, conn)
				must(t, "", conn.Close())
				var got string
				for _, r := range srv.allReports() {
					got += summary(r)
				}
				if got != c.reports {
					t.Errorf("reports %q, want %q", got, c.reports)
				}
				calls := srv.allCalls()
				if end := calls[max(0, len(calls)-len(c.calls)):]; !slices.Equal(end, c.calls) {
					t.Errorf("the driver saw\n%s\nwant at the end\n%s", strings.Join(calls, "\n"), strings.Join(c.calls, "\n"))
				}
			})
		})
	}
}
