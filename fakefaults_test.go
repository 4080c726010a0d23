package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Soundness, against the fake server's own lock table: whatever a program sends and whatever goes wrong, no
// session that is back in the pool holds a lock; no lock statement is sent twice; and the program sees what it would
// have seen without the guard.

// fakeWays are the ways in which a program sends a statement and gives its connection back.
var fakeWays = []struct {
	name string
	send func(ctx context.Context, db *sql.DB, text string) error
}{
	{"query row", func(ctx context.Context, db *sql.DB, text string) error {
		var v any
		return db.QueryRowContext(ctx, text).Scan(&v)
	}},
	{"query", func(ctx context.Context, db *sql.DB, text string) error { return drainRows(db.QueryContext(ctx, text)) }},
	{"query, rows not read", func(ctx context.Context, db *sql.DB, text string) error {
		rows, err := db.QueryContext(ctx, text)
		if err != nil {
			return err
		}
		return rows.Close()
	}},
	{"exec", func(ctx context.Context, db *sql.DB, text string) error {
		_, err := db.ExecContext(ctx, text)
		return err
	}},
	{"prepared", func(ctx context.Context, db *sql.DB, text string) error {
		st, err := db.PrepareContext(context.WithoutCancel(ctx), text)
		if err != nil {
			return err
		}
		return errors.Join(drainRows(st.QueryContext(ctx)), st.Close())
	}},
	{"prepared exec", func(ctx context.Context, db *sql.DB, text string) error {
		st, err := db.PrepareContext(context.WithoutCancel(ctx), text)
		if err != nil {
			return err
		}
		_, err = st.ExecContext(ctx)
		return errors.Join(err, st.Close())
	}},
	{"pinned", func(ctx context.Context, db *sql.DB, text string) error {
		c, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		return errors.Join(drainRows(c.QueryContext(ctx, text)), c.Close())
	}},
	{"transaction", func(ctx context.Context, db *sql.DB, text string) error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		return errors.Join(drainRows(tx.QueryContext(ctx, text)), tx.Commit())
	}},
	{"rolled back", func(ctx context.Context, db *sql.DB, text string) error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		return errors.Join(drainRows(tx.QueryContext(ctx, text)), tx.Rollback())
	}},
}

func drainRows(rows *sql.Rows, err error) error {
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return errors.Join(rows.Err(), rows.Close())
}

var fakeFaults = []struct {
	name  string
	fault fault
}{
	{"none", nil},
	{"fails", failBefore(&fakeError{"before"})},
	{"fails after the grant", failAfter(&fakeError{"after"})},
	{"bad connection", failBefore(driver.ErrBadConn)},
	{"bad connection after the grant", failAfter(driver.ErrBadConn)},
	{"skipped", failBefore(driver.ErrSkip)},
	{"ErrSkip, wrapped, after the grant", failAfter(fmt.Errorf("fake: %w", driver.ErrSkip))},
	{"first row fails", failRow(0, &fakeError{"row"})},
	{"row after the first fails", failRow(1, &fakeError{"row"})},
	{"close fails", failClose(&fakeError{"close"})},
	{"hangs", hangs(false)},
	{"hangs after the grant", hangs(true)},
	{"session dies", dies},
	{"answers false, then a row fails", lies(&fakeError{"row"}, nil)},
	{"answers false, then close fails", lies(nil, &fakeError{"close"})},
}

// Plain statements, and some that are not.
var fakeAcquires = []string{
	"SELECT pg_advisory_lock(1)",
	"SELECT pg_try_advisory_lock(1)",
	"SELECT pg_advisory_lock_shared(-1)",
	"SELECT pg_try_advisory_lock_shared(1,2)",
	"SELECT pg_catalog.pg_advisory_lock(1) AS taken",
	"SELECT pg_advisory_lock(NULL)",
	"SELECT pg_try_advisory_lock(1) OFFSET 1",
	"SELECT pg_try_advisory_lock(1) FROM generate_series(1, 3)",
	"SELECT pg_advisory_lock(1), pg_advisory_lock(2)",
	"SELECT pg_advisory_lock(1); SELECT 2",
	"SELECT pg_advisory_lock(1), pg_advisory_unlock(1)",
	"SELECT pg_advisory_unlock(1)",
	"SELECT pg_advisory_unlock_all()",
	"SELECT pg_advisory_xact_lock(1)",
}

// suffer sends text one way with one fault on a fresh server and returns what the program saw, and how often it ran.
func suffer(t *testing.T, way int, text string, f fault, bare bool, opts ...Option) (ran int, err error) {
	synctest.Test(t, func(t *testing.T) {
		srv := newFakeServer(t)
		srv.bare = bare
		if f != nil {
			srv.inject(text, f)
		}
		db := srv.openDB(modern, opts...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = fakeWays[way].send(ctx, db, text)
		ran = srv.times(text)
		if n := srv.held(); n != 0 && !bare {
			t.Errorf("%d locks are held by sessions that are back in the pool", n)
		}
		if n := db.Stats().InUse; n != 0 {
			t.Errorf("%d connections are not back", n)
		}
		ask(t, db, "SELECT 1")
	})
	return ran, err
}

func TestNothingLeaksUnderFaults(t *testing.T) {
	for way, w := range fakeWays {
		for _, f := range fakeFaults {
			if w.name == "query row" && strings.HasSuffix(f.name, "then a row fails") {
				continue // database/sql never sees that row
			}
			for _, text := range fakeAcquires {
				t.Run(strings.Join([]string{w.name, f.name, text}, "/"), func(t *testing.T) {
					bareRan, bareErr := suffer(t, way, text, f.fault, true)
					for _, policy := range []Policy{Discard, Reset} {
						ran, err := suffer(t, way, text, f.fault, false, WithPolicy(policy))
						if fmt.Sprint(err) != fmt.Sprint(bareErr) {
							t.Errorf("%v: the program saw %v, without the guard %v", policy, err, bareErr)
						}
						if ran != bareRan {
							t.Errorf("%v: the statement ran %d times, without the guard %d", policy, ran, bareRan)
						}
					}
				})
			}
		}
	}
}

// A lock that is held while its release goes wrong.
func TestNothingLeaksWhenReleaseFails(t *testing.T) {
	for _, unlock := range []string{"SELECT pg_advisory_unlock(1)", "SELECT pg_advisory_unlock_all()", "SELECT pg_advisory_unlock(NULL)", "SELECT pg_advisory_unlock(2)", "SELECT pg_advisory_unlock_shared(1)"} {
		for _, f := range append(fakeFaults, struct {
			name  string
			fault fault
		}{"refused", refuses}) {
			if f.name == "refused" && strings.Contains(unlock, "_all") { // it returns void
				continue
			}
			for _, read := range []bool{true, false} {
				t.Run(fmt.Sprint(unlock, "/", f.name, "/read ", read), func(t *testing.T) {
					inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
						c := pinnedTo(t, db)
						ask(t, c, "SELECT pg_advisory_lock(1)")
						if f.fault != nil {
							srv.inject(unlock, f.fault)
						}
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						if rows, err := c.QueryContext(ctx, unlock); err == nil {
							if read {
								_ = drainRows(rows, nil)
							}
							_ = rows.Close()
						}
						if n := srv.times(unlock); n > 1 {
							t.Errorf("it ran %d times", n)
						}
						_ = c.Close()
						if n := srv.held(); n != 0 {
							t.Errorf("%d locks are held", n)
						}
					})
				})
			}
		}
	}
}

// What the guard itself sends can go wrong, too.
func TestNothingLeaksWhenTheGuardFails(t *testing.T) {
	for _, f := range fakeFaults {
		if f.fault == nil {
			continue
		}
		for _, own := range []string{pgProbe, pgReset, rollback} {
			for _, policy := range []Policy{Discard, Reset} {
				t.Run(strings.Join([]string{f.name, own[:8], policy.String()}, "/"), func(t *testing.T) {
					inBubble(t, []Option{WithPolicy(policy)}, func(t *testing.T, srv *fakeServer, db *sql.DB) {
						srv.inject(own, f.fault)
						start := time.Now()
						_, _ = db.Exec("SELECT pg_advisory_lock(1), pg_try_advisory_lock(2)")
						if took := time.Since(start); took > DefaultProbeTimeout {
							t.Errorf("the return took %v", took)
						}
						if n := srv.held(); n != 0 {
							t.Errorf("%d locks are held", n)
						}
						ask(t, db, "SELECT 1")
						clear(srv.faults) // not every policy comes to it
					})
				})
			}
		}
	}
}

// A driver that ignores its context must not hold up the return, and once it answers, the session is ended, even if
// the answer is that all is well.
func TestDeafDriver(t *testing.T) {
	for _, c := range []struct {
		name, own, text string
		policy          Policy
	}{
		{"probe of a session that holds", pgProbe, "SELECT pg_try_advisory_lock(1) OFFSET 1", Discard},
		{"probe of a clean session", pgProbe, "SELECT pg_advisory_lock(NULL) FROM generate_series(1, 3)", Discard},
		{"reset before the discard", pgReset, "SELECT pg_advisory_lock(1)", Discard},
		{"reset", pgReset, "SELECT pg_advisory_lock(1)", Reset},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, []Option{WithPolicy(c.policy)}, func(t *testing.T, srv *fakeServer, db *sql.DB) {
				answer := make(chan struct{})
				srv.inject(c.own, deaf(answer))
				start := time.Now()
				if err := drainRows(db.Query(c.text)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took != DefaultProbeTimeout {
					t.Errorf("the return took %v, want the bound", took)
				}
				if n := db.Stats().OpenConnections; n != 0 {
					t.Errorf("%d connections open, want none", n)
				}
				if got := srv.kinds(); got != "Unverified" {
					t.Errorf("reports %s", got)
				}
				ask(t, db, "SELECT 1") // on another connection
				close(answer)
				synctest.Wait()
				srv.mu.Lock()
				defer srv.mu.Unlock()
				if !srv.sessions[0].closed {
					t.Error("the session was never ended")
				}
			})
		})
	}
}
