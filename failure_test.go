package sqllock_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

// How each stack takes and releases the lock that a test calls 7. MySQL's names are the whole server's.
func (k stack) lockText(t testing.TB) string {
	return k.text(t, "SELECT pg_advisory_lock(7)", "SELECT GET_LOCK('%s', 5)")
}
func (k stack) unlockText(t testing.TB) string {
	return k.text(t, "SELECT pg_advisory_unlock(7)", "SELECT RELEASE_LOCK('%s')")
}

// doubtText is a statement whose effect only the server can tell.
func (k stack) doubtText(t testing.TB) string {
	return k.text(t, "SELECT NOT pg_try_advisory_lock(7)", "DO GET_LOCK('%s', 5) + 0")
}

// cleanDoubtText leaves nothing held, but the guard has to ask.
func (k stack) cleanDoubtText(t testing.TB) string {
	return k.text(t, "SELECT pg_advisory_lock(7), pg_advisory_unlock(7)", "SELECT GET_LOCK('%s', 5), RELEASE_LOCK('%s')")
}

func (k stack) text(t testing.TB, postgres, mysql string) string {
	if k.postgres() {
		return postgres
	}
	return strings.ReplaceAll(mysql, "%s", k.key(t))
}

// key is the lock's key as reports have it.
func (k stack) key(t testing.TB) string {
	if k.postgres() {
		return "7"
	}
	name := strings.NewReplacer("'", "", " ", "_").Replace(t.Name())
	return name[max(0, len(name)-50):]
}

// wantLeak fails unless the only report is a leak of the key.
func (r *rig) wantLeak(action sqllock.Action) {
	r.t.Helper()
	got := r.wantReports(sqllock.Leak)
	if len(got) != 1 {
		return
	}
	if len(got[0].Holds) != 1 || got[0].Holds[0].Key != r.stack.key(r.t) || got[0].Action != action {
		r.t.Errorf("the report says %v, want key %q, %v", got[0], r.stack.key(r.t), action)
	}
	if !strings.Contains(got[0].Place(), "_test.go") {
		r.t.Errorf("the report's place is %q", got[0].Place())
	}
}

// wantGone checks what a discard is: the pool has let go of the connection, and its session is gone with its locks.
func (r *rig) wantGone(kept bool) {
	r.t.Helper()
	if kept {
		r.t.Error("the connection was kept")
	}
	r.outside.awaitFree(r.t, 250*time.Millisecond)
	r.outside.awaitSessions(r.t, "0")
}

// wantUsable checks that the pool goes on.
func (r *rig) wantUsable() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := readAll(ctx, r.DB, "SELECT 1"); err != nil {
		r.t.Errorf("the pool is unusable: %v", err)
	}
}

func TestLeak(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "")
		pin := r.pin()
		r.must(pin, k.lockText(t))
		if held := r.outside.held(t); len(held) != 1 {
			t.Errorf("held %v", held)
		}
		if holds, err := sqllock.Held(r.DB); err != nil || len(holds) != 1 || holds[0].Key != k.key(t) || holds[0].Count != 1 {
			t.Errorf("Held: %v, %v", holds, err)
		}
		r.wantGone(r.giveBack(pin))
		r.wantLeak(sqllock.Discarded)
		if s := r.stats(); s.LocksLeaked != 1 || s.ConnsDiscarded != 1 || s.LocksHeld != 0 || s.Probes != 0 {
			t.Errorf("stats %+v", s)
		}
		r.wantUsable()
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

// A waiter for a connection never gets the one that leaks.
func TestLeakHandOff(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "")
		r.SetMaxOpenConns(1)
		pin := r.pin()
		r.must(pin, k.lockText(t))
		free := make(chan []string)
		go func() {
			c, err := r.Conn(context.Background())
			if err != nil {
				t.Error(err)
				close(free)
				return
			}
			defer c.Close()
			free <- r.outside.held(t)
		}()
		await(t, 5*time.Second, func() error {
			if r.DB.Stats().WaitCount == 0 {
				return errors.New("nobody waits")
			}
			return nil
		})
		pin.Close()
		if held := <-free; len(held) != 0 {
			t.Errorf("held when the waiter got its connection: %v", held)
		}
		r.wantLeak(sqllock.Discarded)
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

func TestPolicies(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		backend := k.text(t, "SELECT pg_backend_pid()", "SELECT CONNECTION_ID()")
		t.Run("Reset", func(t *testing.T) {
			r := newRig(t, k, "", sqllock.WithPolicy(sqllock.Reset))
			for _, text := range []string{k.lockText(t), k.doubtText(t)} {
				pin := r.pin()
				id := value(t, pin, backend)
				r.must(pin, text)
				if kept := r.giveBack(pin); !kept {
					t.Errorf("%s: discarded", text)
				}
				if held := r.outside.held(t); len(held) != 0 {
					t.Errorf("%s: held %v", text, held)
				}
				if got := r.wantReports(sqllock.Leak); len(got) == 1 && got[0].Action != sqllock.ResetKept {
					t.Errorf("action %v", got[0].Action)
				}
				if now := value(t, r.DB, backend); now != id {
					t.Errorf("%s: another session", text)
				}
			}
		})
		t.Run("ReportOnly", func(t *testing.T) {
			r := newRig(t, k, "", sqllock.WithPolicy(sqllock.ReportOnly))
			pin := r.pin()
			id := value(t, pin, backend)
			r.must(pin, k.lockText(t))
			if kept := r.giveBack(pin); !kept || len(r.outside.held(t)) != 1 {
				t.Errorf("kept %v, held %v", kept, r.outside.held(t))
			}
			r.wantLeak(sqllock.Kept)
			for range 2 { // reported once, though it comes back again and again
				if now := value(t, r.DB, backend); now != id {
					t.Errorf("another session")
				}
			}
			r.wantReports()
			if s := r.stats(); s.LocksHeld != 1 || s.ConnsDiscarded != 0 || s.Probes != 0 {
				t.Errorf("stats %+v", s)
			}
		})
		t.Run("ReportOnly/doubt", func(t *testing.T) {
			r := newRig(t, k, "", sqllock.WithPolicy(sqllock.ReportOnly))
			pin := r.pin()
			r.must(pin, k.doubtText(t))
			if kept := r.giveBack(pin); !kept || len(r.outside.held(t)) != 1 {
				t.Errorf("kept %v, held %v", kept, r.outside.held(t))
			}
			if got := r.wantReports(sqllock.Unverified); len(got) == 1 && got[0].Action != sqllock.Kept {
				t.Errorf("action %v", got[0].Action)
			}
		})
		t.Run("ProbeNever", func(t *testing.T) {
			r := newRig(t, k, "", sqllock.WithProbe(sqllock.ProbeNever))
			pin := r.pin()
			r.must(pin, k.cleanDoubtText(t))
			r.wantGone(r.giveBack(pin))
			r.wantReports(sqllock.Unverified)
		})
		t.Run("ProbeOnDoubt", func(t *testing.T) {
			r := newRig(t, k, "")
			pin := r.pin()
			r.must(pin, k.cleanDoubtText(t))
			if kept := r.giveBack(pin); !kept {
				t.Error("a connection that the server says is clean was discarded")
			}
			r.wantReports()
			if s := r.stats(); s.Probes != 1 {
				t.Errorf("%d probes", s.Probes)
			}
		})
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

// What no text shows: ProbeAlways sees it, and so does WithLockFunctions for the functions that it names.
func TestHiddenLock(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		create := k.text(t, "CREATE FUNCTION lock_job() RETURNS void LANGUAGE sql AS 'SELECT pg_advisory_lock(7)'",
			"CREATE FUNCTION lock_job() RETURNS int READS SQL DATA RETURN GET_LOCK('%s', 5)")
		for name, c := range map[string]struct {
			opt  sqllock.Option
			sees bool
		}{
			"default":           {sqllock.WithStacks(true), false}, // the documented limit
			"ProbeAlways":       {sqllock.WithProbe(sqllock.ProbeAlways), true},
			"WithLockFunctions": {sqllock.WithLockFunctions("app.lock_job"), true},
		} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, k, "", c.opt)
				r.outside.exec(t, create)
				pin := r.pin()
				r.must(pin, "SELECT lock_job()")
				if len(r.outside.held(t)) == 0 {
					t.Error("nothing held")
				}
				if kept := r.giveBack(pin); kept == c.sees {
					t.Errorf("kept %v", kept)
				}
				if c.sees {
					r.outside.awaitFree(t, 250*time.Millisecond)
					r.wantReports(sqllock.Leak)
				}
			})
		}
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

func TestLeakInTx(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		for name, end := range map[string]func(*sql.Tx) error{"Commit": (*sql.Tx).Commit, "Rollback": (*sql.Tx).Rollback} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, k, "")
				tx, err := r.Begin()
				if err != nil {
					t.Fatal(err)
				}
				r.must(tx, k.lockText(t))
				if err := end(tx); err != nil {
					t.Error(err)
				}
				r.wantGone(r.DB.Stats().OpenConnections > 0)
				r.wantLeak(sqllock.Discarded)
			})
		}
		t.Run("released after the transaction's end", func(t *testing.T) {
			r := newRig(t, k, "")
			pin := r.pin()
			tx, err := pin.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.must(tx, k.lockText(t))
			tx.Rollback()
			r.must(pin, k.unlockText(t))
			if kept := r.giveBack(pin); !kept || r.stats().Probes != 0 {
				t.Errorf("kept %v, %d probes", kept, r.stats().Probes)
			}
			r.wantReports()
		})
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

// The ways to send a parameter: every driver, every mode, prepared or not. A pair of calls in the plain form costs
// nothing, a leak is known by its key.
func TestParameters(t *testing.T) {
	for _, c := range []struct {
		k      stack
		params []string
	}{
		{onPgx, []string{"", "default_query_exec_mode=cache_describe", "default_query_exec_mode=describe_exec", "default_query_exec_mode=exec", "default_query_exec_mode=simple_protocol"}},
		{onPQ, []string{"", "binary_parameters=yes"}},
		{onMySQL, []string{"", "interpolateParams=true", "multiStatements=true"}},
		{onMariaDB, []string{"", "interpolateParams=true"}},
	} {
		for _, params := range c.params {
			t.Run(c.k.name+" "+params, func(t *testing.T) {
				t.Parallel()
				checkParameters(t, newRig(t, c.k, params))
			})
		}
	}
}

func checkParameters(t *testing.T, r *rig) {
	ctx := context.Background()
	lock, unlock, key := "SELECT pg_advisory_lock($1)", "SELECT pg_advisory_unlock($1)", any(int64(7))
	if !r.stack.postgres() {
		lock, unlock, key = "SELECT GET_LOCK(?, 5)", "SELECT RELEASE_LOCK(?)", r.stack.key(t)
	}
	prepare := func(p interface {
		PrepareContext(context.Context, string) (*sql.Stmt, error)
	}, text string) *sql.Stmt {
		s, err := p.PrepareContext(ctx, text)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	call := func(s interface {
		QueryRowContext(context.Context, ...any) *sql.Row
	}) {
		t.Helper()
		var v any
		if err := s.QueryRowContext(ctx, key).Scan(&v); err != nil {
			t.Fatal(err)
		}
	}
	pool := map[string]*sql.Stmt{lock: prepare(r.DB, lock), unlock: prepare(r.DB, unlock)}
	for name, run := range map[string]func(pin *sql.Conn, text string){
		"Conn": func(pin *sql.Conn, text string) { call(rowsOf{pin, text}) },
		"statement of the Conn": func(pin *sql.Conn, text string) {
			s := prepare(pin, text)
			call(s)
			s.Close()
		},
		"Tx": func(pin *sql.Conn, text string) {
			tx, err := pin.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			call(rowsOf{tx, text})
			tx.Commit()
		},
		"statement of the DB in a Tx": func(pin *sql.Conn, text string) {
			tx, err := pin.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			call(tx.StmtContext(ctx, pool[text]))
			tx.Commit()
		},
	} {
		before := r.stats()
		pin := r.pin()
		run(pin, lock)
		if holds, _ := sqllock.Held(r.DB); len(holds) != 1 || holds[0].Key != r.stack.key(t) {
			t.Errorf("%s: Held: %v", name, holds)
		}
		run(pin, unlock)
		kept := r.giveBack(pin)
		if s := r.stats(); !kept || s.Probes != before.Probes {
			t.Errorf("%s: kept %v, %d probes\n%v", name, kept, s.Probes-before.Probes, r.reports.take())
		}
		pin = r.pin()
		run(pin, lock)
		r.giveBack(pin)
		r.outside.awaitFree(t, 250*time.Millisecond)
		r.wantLeak(sqllock.Discarded)
	}
	// a statement of the DB: the pool gives it a connection, and takes that back when the row is read
	call(pool[lock])
	r.outside.awaitFree(t, 250*time.Millisecond)
	r.wantLeak(sqllock.Discarded)
}

// rowsOf is a text as something that can be queried with arguments alone.
type rowsOf struct {
	c interface {
		QueryRowContext(context.Context, string, ...any) *sql.Row
	}
	text string
}

func (r rowsOf) QueryRowContext(ctx context.Context, args ...any) *sql.Row {
	return r.c.QueryRowContext(ctx, r.text, args...)
}

// The result is read partly, or there are several: what is not seen is asked.
func TestPartlyRead(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		params := k.text(t, "", "multiStatements=true")
		for name, c := range map[string]struct {
			text string
			read int
		}{
			"no row read":              {k.lockText(t), 0},
			"one of two rows":          {k.text(t, "SELECT pg_try_advisory_lock(7) FROM generate_series(1,2)", "SELECT GET_LOCK('%s', 5) FROM (SELECT 1 UNION SELECT 2) s"), 1},
			"the first of two results": {"SELECT 1; " + k.lockText(t), 1},
			"both results unread":      {"SELECT 1; " + k.lockText(t), 0},
		} {
			t.Run(name, func(t *testing.T) {
				params := params
				if strings.Contains(c.text, ";") && k.is(onPgx) {
					params = "default_query_exec_mode=simple_protocol" // pgx refuses to prepare two
				}
				r := newRig(t, k, params)
				pin := r.pin()
				rows, err := pin.QueryContext(context.Background(), c.text)
				if err != nil {
					t.Fatal(err)
				}
				for range c.read {
					rows.Next()
				}
				rows.Close()
				if len(r.outside.held(t)) == 0 {
					t.Error("nothing held")
				}
				r.wantGone(r.giveBack(pin))
				r.wantReports(sqllock.Leak)
			})
		}
		t.Run("row read, scan failed", func(t *testing.T) {
			r := newRig(t, k, params)
			pin := r.pin()
			var v time.Time
			if err := pin.QueryRowContext(context.Background(), k.lockText(t)).Scan(&v); err == nil {
				t.Error("a lock's result was scanned into a time")
			}
			r.wantGone(r.giveBack(pin))
			r.wantReports(sqllock.Leak)
		})
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

func TestContextCancelledWhileWaiting(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "")
		r.must(r.outside, k.lockText(t)) // the holder is unguarded
		pin := r.pin()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- readAll(ctx, pin, k.lockText(t)) }()
		r.awaitWaiter()
		cancel()
		if err := <-done; err == nil {
			t.Error("the wait ended without an error")
		}
		r.must(r.outside, k.unlockText(t))
		r.giveBack(pin)
		r.outside.awaitFree(t, 5*time.Second) // a MySQL waiter lingers; if it is granted the lock, it is gone at once
		r.wantUsable()
		r.outside.awaitFree(t, time.Second)
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

// awaitWaiter waits until somebody waits for an advisory or named lock on this database.
func (r *rig) awaitWaiter() {
	r.t.Helper()
	query := "SELECT COUNT(*) FROM information_schema.processlist WHERE STATE LIKE '%lock%' AND DB = DATABASE()"
	if r.stack.postgres() {
		query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()"
	}
	await(r.t, 5*time.Second, func() error {
		if n := value(r.t, r.outside, query); n == "0" {
			return errors.New("nobody waits")
		}
		return nil
	})
}

func TestContextCancelledInTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "")
		ctx, cancel := context.WithCancel(context.Background())
		tx, err := r.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.must(tx, "INSERT INTO t VALUES (2, 'x')", k.lockText(t))
		cancel()
		await(t, 5*time.Second, func() error {
			if n := r.DB.Stats(); n.InUse != 0 {
				return fmt.Errorf("%d connections in use", n.InUse)
			}
			return nil
		})
		r.wantGone(r.DB.Stats().OpenConnections > 0)
		if got := r.reports.take(); len(got) != 1 || got[0].Kind != sqllock.Leak && got[0].Kind != sqllock.SessionDied {
			t.Errorf("reports %v", got)
		}
		if n := value(t, r.outside, "SELECT COUNT(*) FROM t"); n != "1" {
			t.Errorf("%s rows: the transaction was not rolled back", n)
		}
		r.wantUsable()
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

// A driver whose connections database/sql discards after a cancelled transaction keeps none under the guard, either.
func TestContextCancelledInCleanTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "")
		for range 20 {
			ctx, cancel := context.WithCancel(context.Background())
			tx, err := r.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.must(tx, "INSERT INTO t VALUES (2, 'x')")
			cancel()
			tx.Rollback()
			r.wantUsable()
		}
		await(t, 5*time.Second, func() error {
			if open := r.outside.openTx(t); len(open) != 0 {
				return fmt.Errorf("%v", open)
			}
			return nil
		})
		r.wantReports()
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

// Two transactions can be open on one connection for a moment: database/sql rolls a cancelled one back in the background.
func TestTransactionAfterCancelledOne(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "")
		for range 50 {
			pin := r.pin()
			ctx, cancel := context.WithCancel(context.Background())
			if _, err := pin.BeginTx(ctx, nil); err != nil {
				t.Fatal(err)
			}
			cancel()
			beginAndEnd(pin)
			r.giveBack(pin)
		}
		r.wantUsable()
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

// beginAndEnd survives a race of database/sql's own: Conn.BeginTx looks whether the Conn is closed before it locks it, so
// that a cancelled transaction which closes it in between leaves it a nil connection.
func beginAndEnd(pin *sql.Conn) {
	defer func() {
		if p := recover(); p != nil && !strings.Contains(fmt.Sprint(p), "nil pointer") {
			panic(p)
		}
	}()
	if tx, err := pin.BeginTx(context.Background(), nil); err == nil {
		tx.Rollback()
	}
}

func TestTimeoutAfterGrant(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "")
		pin := r.pin()
		text, state := "SELECT pg_advisory_lock(7), pg_sleep(10)", "57014"
		if k.postgres() {
			r.must(pin, "SET statement_timeout = '50ms'")
		} else { // each row takes a while, after the first has taken the lock
			text = fmt.Sprintf("SELECT GET_LOCK('%s', 5), SLEEP(10) FROM (SELECT 1 UNION SELECT 2) s", k.key(t))
			state = ""
		}
		done := make(chan error)
		id := value(t, pin, k.text(t, "SELECT pg_backend_pid()", "SELECT CONNECTION_ID()"))
		go func() { done <- readAll(context.Background(), pin, text) }()
		if !k.postgres() {
			await(t, 5*time.Second, func() error {
				if len(r.outside.held(t)) == 0 {
					return errors.New("nothing held")
				}
				return nil
			})
			r.outside.exec(t, "KILL QUERY "+id)
		}
		err := <-done
		if k.postgres() && sqlState(err) != state {
			t.Errorf("error %v", err)
		}
		if len(r.outside.held(t)) == 0 {
			t.Error("nothing held after the error")
		}
		r.wantGone(r.giveBack(pin))
		r.wantReports(sqllock.Leak)
		r.wantUsable()
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

func TestSessionKilled(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "")
		pin := r.pin()
		id := value(t, pin, k.text(t, "SELECT pg_backend_pid()", "SELECT CONNECTION_ID()"))
		r.must(pin, k.lockText(t))
		if k.postgres() {
			value(t, r.outside, "SELECT pg_terminate_backend("+id+")")
		} else {
			r.outside.exec(t, "KILL "+id)
		}
		r.outside.awaitSessions(t, "0")
		begin := time.Now()
		r.wantGone(r.giveBack(pin))
		if d := time.Since(begin); d > 2*time.Second {
			t.Errorf("the return took %v", d)
		}
		// a driver that does not notice cannot tell a dead session from one that leaks
		if got := r.reports.take(); len(got) != 1 || got[0].Kind != sqllock.SessionDied && got[0].Kind != sqllock.Leak {
			t.Errorf("reports %v", got)
		}
		r.wantUsable()

		// the user meets the end of the session
		pin = r.pin()
		id = value(t, pin, k.text(t, "SELECT pg_backend_pid()", "SELECT CONNECTION_ID()"))
		r.must(pin, k.lockText(t))
		if k.postgres() {
			value(t, r.outside, "SELECT pg_terminate_backend("+id+")")
		} else {
			r.outside.exec(t, "KILL "+id)
		}
		if err := readAll(context.Background(), pin, "SELECT 1"); err == nil {
			t.Error("the session lives")
		}
		if kept := r.giveBack(pin); kept {
			t.Error("a dead connection was kept")
		}
		r.wantReports(sqllock.SessionDied)
		if s := r.stats(); s.LocksLost == 0 {
			t.Errorf("stats %+v", s)
		}
		r.wantUsable()
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

func TestUserCodeEnds(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		for name, end := range map[string]func(){
			"panic":  func() { panic("user") },
			"Goexit": runtime.Goexit,
		} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, k, "")
				var done sync.WaitGroup
				done.Go(func() {
					defer func() { recover() }()
					pin := r.pin()
					defer pin.Close() // and no unlock
					r.must(pin, k.lockText(t))
					end()
				})
				done.Wait()
				r.wantGone(r.DB.Stats().OpenConnections > 0)
				r.wantLeak(sqllock.Discarded)
				r.wantUsable()
			})
		}
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

func TestRaw(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		t.Run("an error", func(t *testing.T) {
			r := newRig(t, k, "")
			pin := r.pin()
			r.must(pin, k.lockText(t))
			pin.Raw(func(any) error { return io.EOF })
			r.wantGone(r.giveBack(pin))
			r.wantLeak(sqllock.Discarded)
		})
		for name, f := range map[string]func(any) error{
			"ErrBadConn while holding": func(any) error { return driver.ErrBadConn },
			"panic while holding":      func(any) error { panic("user") },
		} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, k, "")
				pin := r.pin()
				r.must(pin, k.lockText(t))
				func() {
					defer func() { recover() }()
					pin.Raw(f)
				}()
				r.wantGone(r.DB.Stats().OpenConnections > 0)
				r.wantReports(sqllock.SessionDied)
				r.wantUsable()
			})
		}
		t.Run("the driver's own connection", func(t *testing.T) {
			r := newRig(t, k, "")
			pin := r.pin()
			pin.Raw(func(dc any) error {
				own := sqllock.Unwrap(dc)
				rows, err := own.(driver.QueryerContext).QueryContext(context.Background(), k.lockText(t), nil)
				if err != nil {
					t.Error(err)
					return nil
				}
				return rows.Close()
			})
			if len(r.outside.held(t)) == 0 {
				t.Error("nothing held")
			}
			r.wantGone(r.giveBack(pin))
			if got := r.reports.take(); len(got) != 1 {
				t.Errorf("reports %v", got)
			}
		})
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

func TestRawPgxBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, onPgx, "")
	for _, c := range []struct {
		texts []string
		kept  bool
		want  []sqllock.Kind
	}{
		{[]string{"SELECT 1", "SELECT 2"}, true, nil},
		{[]string{"SELECT 1", "SELECT pg_advisory_lock(7)", "SELECT 2"}, false, []sqllock.Kind{sqllock.Leak}},
		{[]string{"SELECT pg_advisory_lock(7)", "SELECT pg_advisory_unlock(7)"}, true, nil},
		{[]string{"SELECT pg_advisory_lock(7)", "nonsense"}, true, nil}, // one implicit transaction: nothing of it runs
		{[]string{"BEGIN", "SELECT 1"}, false, []sqllock.Kind{sqllock.Unverified}},
	} {
		pin := r.pin()
		err := pin.Raw(func(dc any) error {
			var b pgx.Batch
			for _, text := range c.texts {
				b.Queue(text)
			}
			sqllock.Unwrap(dc).(*stdlib.Conn).Conn().SendBatch(context.Background(), &b).Close()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		held := r.outside.held(t)
		if kept := r.giveBack(pin); kept != c.kept {
			t.Errorf("%v: kept %v, held %v", c.texts, kept, held)
		}
		r.outside.awaitFree(t, 250*time.Millisecond)
		r.wantReports(c.want...)
	}
}

// pgxpool must not get a connection back that holds a lock, nor lose one that is clean.
func TestPgxPoolConnector(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := testbed.Postgres(t).NewDatabase(t)
	o := lookAt(t, s)
	pool, err := pgxpool.New(ctx, with(s.URL(), "pool_max_conns=1"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	r := o.poolOf(t, onPgx, s, stdlib.GetPoolConnector(pool))
	r.SetMaxIdleConns(0) // as stdlib.OpenDBFromPool does

	pid := value(t, r.DB, "SELECT pg_backend_pid()")
	if again := value(t, r.DB, "SELECT pg_backend_pid()"); again != pid {
		t.Errorf("a clean connection did not go back to the pgxpool: %s, then %s", pid, again)
	}
	for _, text := range []string{"SELECT pg_advisory_lock(7)", "SELECT NOT pg_try_advisory_lock(7)", "BEGIN"} {
		pid = value(t, r.DB, "SELECT pg_backend_pid()")
		if err := readAll(ctx, r.DB, text); err != nil {
			t.Fatal(err)
		}
		o.awaitFree(t, 250*time.Millisecond)
		c, err := pool.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if tx := c.Conn().PgConn().TxStatus(); tx != 'I' {
			t.Errorf("%s: pgxpool got back a connection in state %c", text, tx)
		}
		if got := fmt.Sprint(c.Conn().PgConn().PID()); got == pid {
			t.Errorf("%s: pgxpool got the session back", text)
		}
		c.Release()
	}
	r.wantReports(sqllock.Leak, sqllock.Leak, sqllock.Unverified)
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("pgxpool misses %d connections", n)
	}
}

// A server that hangs during the probe: the return is bounded, the connection is discarded, and all ends well.
func TestServerHangs(t *testing.T) {
	const bound = 300 * time.Millisecond
	check := func(t *testing.T, r *rig, text string, hang func(on bool)) {
		pin := r.pin()
		r.must(pin, text)
		hang(true)
		begin := time.Now()
		kept := r.giveBack(pin)
		took := time.Since(begin)
		if took > 2*bound {
			t.Errorf("the return took %v, more than its bound of %v", took, bound)
		}
		if kept {
			t.Error("the connection was kept")
		}
		got := r.reports.take()
		hang(false)
		if len(got) != 1 || got[0].Kind != sqllock.Unverified && got[0].Kind != sqllock.Leak {
			t.Errorf("reports %v", got)
		}
		r.outside.awaitFree(t, 10*time.Second)
		r.outside.awaitSessions(t, "0") // what waited for the server ends the session, too
		r.wantUsable()
	}
	for _, k := range []stack{onPgx, onPQ} {
		t.Run("stopped/"+k.name, func(t *testing.T) {
			t.Parallel()
			s := testbed.StartPostgres(t)
			for name, text := range map[string]string{"held, in doubt": k.doubtText(t), "clean, in doubt": k.cleanDoubtText(t), "held": k.lockText(t)} {
				t.Run(name, func(t *testing.T) {
					r := rigOn(t, k, s.NewDatabase(t), "", sqllock.WithProbeTimeout(bound))
					check(t, r, text, func(on bool) {
						if on {
							s.Signal(t, syscall.SIGSTOP)
						} else {
							s.Signal(t, syscall.SIGCONT)
						}
					})
				})
			}
		})
	}
	for _, k := range []stack{onPgx, onPQ, onMySQL, onMariaDB} {
		t.Run("black hole/"+k.name, func(t *testing.T) {
			t.Parallel()
			s := k.server(t).NewDatabase(t)
			for name, text := range map[string]string{"held, in doubt": k.doubtText(t), "clean, in doubt": k.cleanDoubtText(t), "held": k.lockText(t)} {
				t.Run(name, func(t *testing.T) {
					o := lookAt(t, s)
					proxy := testbed.NewProxy(t, s.Addr())
					check(t, o.pool(t, k, s.Via(proxy), "", sqllock.WithProbeTimeout(bound)), text, proxy.Blackhole)
				})
			}
		})
	}
}

// A connection that is cut while its session holds a lock.
func TestConnectionCut(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		s := k.server(t).NewDatabase(t)
		o := lookAt(t, s)
		proxy := testbed.NewProxy(t, s.Addr())
		r := o.pool(t, k, s.Via(proxy), "")
		for _, text := range []string{k.lockText(t), k.doubtText(t)} {
			pin := r.pin()
			r.must(pin, text)
			proxy.Cut()
			if kept := r.giveBack(pin); kept {
				t.Errorf("%s: kept", text)
			}
			o.awaitFree(t, 2*time.Second) // as soon as the server notices
			if got := r.reports.take(); len(got) != 1 {
				t.Errorf("%s: reports %v", text, got)
			}
		}
		r.wantUsable()
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

// lookAlikes name lock functions and statements wherever that means nothing.
var lookAlikes = map[bool][]string{
	true: {
		"SELECT 'pg_advisory_lock(1)', $$pg_advisory_lock(1)$$, 'it''s pg_advisory_lock(1)' -- pg_advisory_lock(1)",
		"SELECT 1 AS pg_advisory_lock, 2 AS \"pg_advisory_lock(1)\"", "SELECT 1 /* /* */ pg_try_advisory_lock(1) */",
		"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode <> 'pg_advisory_unlock_all()'",
		"SELECT s.pg_advisory_unlock FROM (SELECT 1 AS pg_advisory_unlock) s", "INSERT INTO t VALUES (1, 'SELECT pg_advisory_lock(1); BEGIN')",
		"UPDATE t SET s = 'LOCK TABLES t WRITE' WHERE a = 99", "SELECT 'GET_LOCK(''x'', 1)', E'DISCARD ALL'", "EXPLAIN SELECT 'pg_advisory_lock(1)'",
		"SELECT hashtext('pg_advisory_lock(1)')", "SELECT * FROM t WHERE s LIKE '%_advisory_%' FOR UPDATE", "SHOW lock_timeout",
	},
	false: {
		"SELECT 'GET_LOCK(1,2)', \"RELEASE_LOCK('x')\" -- GET_LOCK('x',1)", "SELECT 1 AS GET_LOCK, 2 AS `GET_LOCK('y',1)`", "SELECT 1 /* , GET_LOCK('x',1) */ # GET_LOCK",
		"SELECT IS_FREE_LOCK('a'), IS_USED_LOCK('a')", "SELECT s.GET_LOCK FROM (SELECT 1 AS GET_LOCK) s", "INSERT INTO t VALUES (1, 'LOCK TABLES t WRITE; BEGIN')",
		"UPDATE t SET s = 'FLUSH TABLES WITH READ LOCK' WHERE a = 99", "SELECT * FROM t LIMIT 3 FOR UPDATE", "SELECT * FROM t LIMIT 3 LOCK IN SHARE MODE", "SHOW VARIABLES LIKE 'lock_wait_timeout'",
		"SELECT 'pg_advisory_lock(1)', 'HANDLER t OPEN'", "FLUSH STATUS",
	},
}

// 10,000 look-alikes: no discard, no probe, and not one byte more on the wire than without the guard.
func TestLookAlikes(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		s := k.server(t).NewDatabase(t)
		o := lookAt(t, s)
		o.makeTable(t)
		proxy := testbed.NewProxy(t, s.Addr())
		sent := func(db *sql.DB) int64 {
			before := proxy.Sent()
			for i := range 2500 {
				if i%250 == 0 {
					if _, err := db.Exec("DELETE FROM t"); err != nil {
						t.Fatal(err)
					}
				}
				texts := lookAlikes[k.postgres()]
				if err := readAll(context.Background(), db, texts[i%len(texts)]); err != nil {
					t.Fatal(err)
				}
			}
			return proxy.Sent() - before
		}
		r := o.pool(t, k, s.Via(proxy), "")
		guarded := sent(r.DB)
		if got := sent(bare(t, k, s.Via(proxy), "")); got != guarded {
			t.Errorf("%d bytes sent with the guard, %d without", guarded, got)
		}
		if st := r.stats(); st.ConnsDiscarded != 0 || st.Probes != 0 || st.Reports != 0 {
			t.Errorf("stats %+v", st)
		}
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

// Whatever a session puts in front of pg_catalog, the guard's own statements reach the real thing.
func TestShadowedCatalog(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		for _, policy := range []sqllock.Policy{sqllock.Discard, sqllock.Reset} {
			t.Run(policy.String(), func(t *testing.T) {
				r := newRig(t, k, "", sqllock.WithPolicy(policy))
				r.outside.exec(t,
					"CREATE VIEW pg_locks AS SELECT 'none'::text AS locktype, 0 AS classid, 0 AS objid, 0 AS objsubid, '' AS mode, 0 AS pid, true AS granted WHERE false",
					"CREATE FUNCTION pg_backend_pid() RETURNS int LANGUAGE sql AS 'SELECT 0'",
					"CREATE FUNCTION pg_advisory_unlock_all() RETURNS void LANGUAGE sql AS 'SELECT NULL::void'",
					"CREATE FUNCTION never(text, text) RETURNS bool LANGUAGE sql AS 'SELECT false'",
					"CREATE FUNCTION never(int, int) RETURNS bool LANGUAGE sql AS 'SELECT false'",
					"CREATE OPERATOR = (LEFTARG = text, RIGHTARG = text, FUNCTION = never)",
					"CREATE OPERATOR = (LEFTARG = int, RIGHTARG = int, FUNCTION = never)",
					"CREATE DOMAIN int8 AS text", "CREATE DOMAIN text AS varchar")
				pin := r.pin()
				r.must(pin, "SET search_path = public, pg_catalog", "CREATE TEMP TABLE pg_locks (locktype text)", k.doubtText(t))
				if len(r.outside.held(t)) != 1 {
					t.Errorf("held %v", r.outside.held(t))
				}
				kept := r.giveBack(pin)
				r.outside.awaitFree(t, 250*time.Millisecond)
				if kept != (policy == sqllock.Reset) {
					t.Errorf("kept %v", kept)
				}
				r.wantReports(sqllock.Leak)
			})
		}
		t.Run("a shadowed unlock", func(t *testing.T) { // the documented limit, and what covers it
			r := newRig(t, k, "", sqllock.WithProbe(sqllock.ProbeAlways))
			r.outside.exec(t, "CREATE FUNCTION pg_advisory_unlock(int) RETURNS bool LANGUAGE sql AS 'SELECT true'")
			pin := r.pin()
			r.must(pin, "SET search_path = public, pg_catalog", k.lockText(t), k.unlockText(t))
			r.wantGone(r.giveBack(pin))
			r.wantReports(sqllock.Leak)
		})
	}, onPgx, onPQ)
}

// DISCARD ALL breaks pgx's statement cache, which the guard neither hides nor suffers from.
func TestDiscardAll(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "")
		pin := r.pin()
		r.must(pin, "SELECT 1", k.lockText(t), "DISCARD ALL")
		if err := readAll(context.Background(), pin, "SELECT 1"); k.is(onPgx) && sqlState(err) != "26000" {
			t.Errorf("error %v", err)
		}
		r.must(pin, "SELECT 1")
		if kept := r.giveBack(pin); !kept || r.stats().Probes != 0 {
			t.Errorf("kept %v, %d probes", kept, r.stats().Probes)
		}
		r.wantReports()
	}, onPgx, onPQ)
}

// The guard's own statements do not depend on what pgx has cached and DISCARD ALL has dropped.
func TestDiscardAllBetweenProbes(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		for policy, text := range map[sqllock.Policy]string{sqllock.Discard: k.cleanDoubtText(t), sqllock.Reset: k.lockText(t)} {
			r := newRig(t, k, "", sqllock.WithPolicy(policy))
			for i := range 3 {
				pin := r.pin()
				pin.ExecContext(context.Background(), fmt.Sprintf("DISCARD /* %d */ ALL", i))
				if _, err := pin.ExecContext(context.Background(), fmt.Sprint(text, " -- ", i)); err != nil {
					t.Fatal(err)
				}
				if kept := r.giveBack(pin); !kept {
					t.Errorf("%v: discarded\n%v", policy, r.reports.take())
				}
			}
		}
	}, onPgx, onPQ)
}

// BeginTx frees table locks as START TRANSACTION does, but never passes as text.
func TestBeginTxFreesTableLocks(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "")
		for _, c := range []struct {
			lock string
			kept bool
		}{{"LOCK TABLES t WRITE", true}, {"FLUSH TABLES t WITH READ LOCK", true}, {"FLUSH TABLES WITH READ LOCK", false}} {
			pin := r.pin()
			r.must(pin, c.lock)
			tx, err := pin.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if held := r.outside.held(t); (len(held) == 0) != c.kept {
				t.Errorf("%s: held %v", c.lock, held)
			}
			tx.Commit()
			if kept := r.giveBack(pin); kept != c.kept {
				t.Errorf("%s: kept %v\n%v", c.lock, kept, r.reports.take())
			}
			r.outside.awaitFree(t, 250*time.Millisecond)
		}
	}, onMySQL, onMariaDB)
}

// Behind PgBouncer in session mode a discard gives the server's session back, and PgBouncer resets that.
func TestPgBouncerSessionMode(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		s := testbed.PgBouncer(t, "session").NewDatabase(t)
		o := lookAt(t, s)
		r := o.pool(t, k, s, "")
		for _, text := range []string{k.lockText(t), k.doubtText(t)} {
			pin := r.pin()
			r.must(pin, text)
			if len(o.held(t)) != 1 {
				t.Errorf("%s: held %v", text, o.held(t))
			}
			if kept := r.giveBack(pin); kept {
				t.Errorf("%s: kept", text)
			}
			o.awaitFree(t, 250*time.Millisecond)
		}
		r.wantReports(sqllock.Leak, sqllock.Leak)
		pin := r.pin()
		r.must(pin, k.lockText(t), k.unlockText(t))
		if kept := r.giveBack(pin); !kept {
			t.Error("a clean connection was discarded")
		}
		r.wantUsable()
	}, onPgx, onPQ)
}

// A report about a mistake names the other connection that it concerns.
func TestMistakesAreReported(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "", sqllock.WithHoldLimit(20*time.Millisecond))
		holder, other := r.pin(), r.pin()
		r.must(holder, k.lockText(t))
		await(t, 5*time.Second, func() error {
			if r.stats().Reports == 0 {
				return errors.New("no report")
			}
			return nil
		})
		r.wantReports(sqllock.HeldTooLong)
		r.must(other, k.unlockText(t))
		got := r.wantReports(sqllock.MisplacedUnlock)
		if len(got) == 1 && (got[0].Key != k.key(t) || len(got[0].Holds) != 1 || got[0].Holds[0].Key != k.key(t)) {
			t.Errorf("report %v", got)
		}
		r.must(holder, k.unlockText(t))
		holder.Close()
		other.Close()
		r.wantReports()
		if n := r.DB.Stats().OpenConnections; n != 2 {
			t.Errorf("%d connections", n)
		}
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

// A transaction lock is a mistake only where no transaction is open.
func TestTransactionLocks(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		const text = "SELECT pg_advisory_xact_lock(7)"
		r := newRig(t, k, "")
		pin := r.pin()
		for _, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
			tx, err := pin.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.must(tx, text)
			r.wantReports()
			if err := end(tx); err != nil {
				t.Fatal(err)
			}
			r.must(pin, text)
			r.wantReports(sqllock.TxLockOutsideTx)
		}
		r.must(pin, "BEGIN", text, "COMMIT")
		r.wantReports()
		if kept := r.giveBack(pin); !kept || r.stats().Probes != 0 {
			t.Errorf("kept %v, %d probes", kept, r.stats().Probes)
		}
	}, onPgx, onPQ)
}

// Many goroutines leak and release at once.
func TestConcurrency(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "")
		r.SetMaxOpenConns(4)
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range 15 {
					n := 100 + g
					lock := k.text(t, fmt.Sprintf("SELECT pg_advisory_lock(%d)", n), fmt.Sprintf("SELECT GET_LOCK('%%s%d', 5)", n))
					unlock := k.text(t, fmt.Sprintf("SELECT pg_advisory_unlock(%d)", n), fmt.Sprintf("SELECT RELEASE_LOCK('%%s%d')", n))
					pin, err := r.Conn(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					readAll(context.Background(), pin, lock)
					if i%3 > 0 {
						readAll(context.Background(), pin, unlock)
					}
					sqllock.Held(r.DB)
					sqllock.ReadStats(r.DB)
					pin.Close()
				}
			})
		}
		all.Wait()
		r.outside.awaitFree(t, 250*time.Millisecond)
		s := r.stats()
		if s.ConnsDiscarded != 8*5 || s.LocksLeaked != 8*5 || s.LocksAcquired != 8*15 || s.LocksHeld != 0 || s.Probes != 0 {
			t.Errorf("stats %+v", s)
		}
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

// Two pools of one process are apart.
func TestPoolsAreApart(t *testing.T) {
	t.Parallel()
	a := newRig(t, onPgx, "")
	b := a.outside.pool(t, onPQ, a.server, "")
	pin := a.pin()
	a.must(pin, "SELECT pg_advisory_lock(7)")
	if holds, _ := sqllock.Held(b.DB); len(holds) != 0 || b.stats().LocksAcquired != 0 {
		t.Errorf("the other pool has %v", holds)
	}
	b.must(b.DB, "SELECT pg_advisory_unlock(7)")
	if got := b.wantReports(sqllock.MisplacedUnlock); len(got) == 1 && len(got[0].Holds) != 0 {
		t.Errorf("report %v", got)
	}
	a.must(pin, "SELECT pg_advisory_unlock(7)")
	pin.Close()
	if _, err := sqllock.Held(bare(t, onPgx, a.server, "")); !errors.Is(err, sqllock.ErrNotGuarded) {
		t.Errorf("Held of a bare pool: %v", err)
	}
}

// What the probe finds is named as a user would name it.
func TestProbeNamesKeys(t *testing.T) {
	t.Parallel()
	for _, k := range []stack{onPgx, onPQ} {
		r := newRig(t, k, "")
		for args, want := range map[string]string{
			"42": "42", "-1": "-1", "'-9223372036854775808'::bigint": "-9223372036854775808", "9223372036854775807": "9223372036854775807",
			"4294967298": "4294967298", "1, 2": "1,2", "-1, -7": "-1,-7", "2147483647, (-2147483648)::int": "2147483647,-2147483648",
		} {
			for _, fn := range []string{"pg_try_advisory_lock", "pg_try_advisory_lock_shared"} {
				if err := readAll(context.Background(), r.DB, "SELECT 1, "+fn+"("+args+")"); err != nil {
					t.Fatal(err)
				}
				got := r.wantReports(sqllock.Leak)
				if len(got) == 1 && (len(got[0].Holds) != 1 || got[0].Holds[0].Key != want || got[0].Holds[0].Shared != strings.HasSuffix(fn, "shared")) {
					t.Errorf("%s(%s) is reported as %v", fn, args, got[0].Holds)
				}
			}
		}
	}
}

// When everything is closed no goroutine is left: not the guard's, and not one that waited for a server that hung.
// It does not run in parallel with other tests.
func TestNoGoroutineLeft(t *testing.T) {
	stacks := []stack{onPgx, onPQ, onMySQL, onMariaDB}
	for _, k := range stacks {
		k.server(t) // started by now, and not counted
	}
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, k := range stacks {
		t.Run(k.name, func(t *testing.T) {
			s := k.server(t).NewDatabase(t)
			o := lookAt(t, s)
			proxy := testbed.NewProxy(t, s.Addr())
			r := o.pool(t, k, s.Via(proxy), "", sqllock.WithProbeTimeout(100*time.Millisecond), sqllock.WithHoldLimit(time.Hour))
			for _, text := range []string{k.lockText(t), k.doubtText(t), k.cleanDoubtText(t)} {
				r.must(r.DB, text)
			}
			pin := r.pin()
			r.must(pin, k.doubtText(t))
			proxy.Blackhole(true)
			pin.Close()
			proxy.Blackhole(false)
			pin = r.pin()
			r.must(pin, k.lockText(t))
			proxy.Cut()
			pin.Close()
		})
	}
}
