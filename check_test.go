package sqllock_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/DATA-DOG/go-sqlmock"
	"go.uber.org/goleak"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

// times is how often an experiment that could go wrong by chance is repeated: the long run is the proof, the short one looks.
func times(short, long int) int {
	if os.Getenv("SQLLOCK_TEST_LONG") != "" {
		return long
	}
	return short
}

// underLoad keeps eight clients busy on the pool until t ends: single statements and, except in statement mode, transactions.
func underLoad(t testing.TB, db *sql.DB, transactions bool) {
	t.Helper()
	db.SetMaxIdleConns(8)
	var over atomic.Bool // not a context: PgBouncer 1.18 dies of a cancelled statement whose database is dropped
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := 0; !over.Load(); i++ {
				if i%2 == 0 || !transactions {
					db.Exec("SELECT 1")
					continue
				}
				tx, err := db.Begin()
				if err != nil {
					continue
				}
				tx.Exec("SELECT 1")
				tx.Rollback()
			}
		})
	}
	t.Cleanup(func() {
		over.Store(true)
		all.Wait()
		db.Close()
	})
}

func mustCheck(t testing.TB, db *sql.DB, opts ...sqllock.CheckOption) sqllock.Findings {
	t.Helper()
	found, err := sqllock.Check(t.Context(), db, opts...)
	if err != nil {
		t.Fatalf("Check: %v\n%v", err, found)
	}
	return found
}

func topics(found sqllock.Findings, least sqllock.Severity) (list []string) {
	for _, f := range found.List {
		if f.Severity >= least {
			list = append(list, f.Topic)
		}
	}
	return list
}

// What is between a program and its server is told by experiment, every time, also while others use it.
func TestCheckFindsPoolers(t *testing.T) {
	already := goleak.IgnoreCurrent()
	direct := func(t testing.TB) *testbed.Server { return testbed.Postgres(t).NewDatabase(t) }
	proxied := func(t testing.TB) *testbed.Server {
		s := direct(t)
		return s.Via(testbed.NewProxy(t, s.Addr()))
	}
	behind := func(mode string) func(testing.TB) *testbed.Server {
		return func(t testing.TB) *testbed.Server { return testbed.PgBouncer(t, mode).NewDatabase(t) }
	}
	for _, c := range []struct {
		name   string
		server func(testing.TB) *testbed.Server
		stack  stack
		mode   sqllock.PoolerMode
		worst  sqllock.Severity
	}{
		{"nothing/pgx", direct, onPgx, sqllock.PoolerNone, sqllock.SeverityInfo},
		{"nothing/pq", direct, onPQ, sqllock.PoolerNone, sqllock.SeverityInfo},
		{"proxy/pgx", proxied, onPgx, sqllock.PoolerNone, sqllock.SeverityInfo},
		{"proxy/pq", proxied, onPQ, sqllock.PoolerNone, sqllock.SeverityInfo},
		{"session/pgx", behind("session"), onPgx, sqllock.PoolerSession, sqllock.SeverityInfo},
		{"session/pq", behind("session"), onPQ, sqllock.PoolerNone, sqllock.SeverityInfo}, // without the protocol's PID it is not seen, and does no harm
		{"transaction/pgx", behind("transaction"), onPgx, sqllock.PoolerTransaction, sqllock.SeverityError},
		{"transaction/pq", behind("transaction"), onPQ, sqllock.PoolerTransaction, sqllock.SeverityError},
		{"statement/pgx", behind("statement"), onPgx, sqllock.PoolerStatement, sqllock.SeverityError},
		{"statement/pq", behind("statement"), onPQ, sqllock.PoolerStatement, sqllock.SeverityError},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.server(t)
			params := ""
			if c.stack.is(onPgx) {
				params = "default_query_exec_mode=exec"
			}
			load := sql.OpenDB(c.stack.connector(t, s, params))
			underLoad(t, load, c.mode != sqllock.PoolerStatement)
			for i := range times(5, 100) {
				p := newLockPool(t, c.stack, s, i%2 == 0, params)
				found := checkDecided(t, p.DB)
				if found.Pooler != c.mode || found.Worst() != c.worst || errors.Is(found.Err(), sqllock.ErrUnsupported) != (c.worst == sqllock.SeverityError) {
					t.Fatalf("run %d: mode %q, worst %v, want %q, %v:\n%v", i, found.Pooler, found.Worst(), c.mode, c.worst, found)
				}
				p.DB.Close()
			}
			s.AwaitFree(t, time.Second)
		})
	}
	goleak.VerifyNone(t, already)
}

// checkDecided repeats what a busy pooler left undecided, as the finding's remedy says.
func checkDecided(t *testing.T, db *sql.DB) (found sqllock.Findings) {
	t.Helper()
	await(t, 30*time.Second, func() error {
		found = mustCheck(t, db)
		if strings.Contains(found.String(), "it gave no second connection") {
			return errors.New(found.String())
		}
		return nil
	})
	return found
}

// Transaction locks are what a pooler in transaction mode lets through.
func TestCheckForTransactionLocks(t *testing.T) {
	for mode, worst := range map[string]sqllock.Severity{"transaction": sqllock.SeverityInfo, "statement": sqllock.SeverityError} {
		p := newLockPool(t, onPgx, testbed.PgBouncer(t, mode).NewDatabase(t), false, "default_query_exec_mode=exec")
		p.SetMaxOpenConns(1)
		found := mustCheck(t, p.DB, sqllock.ForTransactionLocks())
		if found.Worst() != worst {
			t.Errorf("%s mode: %v", mode, found)
		}
	}
}

// pgx's default would send the pooler's next client a prepared statement's name that it does not know.
func TestCheckFindsStatementCache(t *testing.T) {
	for params, want := range map[string]bool{"": true, "default_query_exec_mode=exec": false} {
		p := newLockPool(t, onPgx, testbed.PgBouncer(t, "transaction").NewDatabase(t), true, params)
		found := mustCheck(t, p.DB)
		if got := slices.Contains(topics(found, sqllock.SeverityWarning), "statement cache"); got != want {
			t.Errorf("with %q: %v", params, found)
		}
	}
}

// The servers that nothing is wrong with have no warning either.
func TestCheckIsQuiet(t *testing.T) {
	for _, k := range []stack{onPgx, onPQ, onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			s := k.server(t).NewDatabase(t)
			underLoad(t, sql.OpenDB(k.connector(t, s, "")), true)
			for range times(5, 100) {
				p := newLockPool(t, k, s, true, "")
				if found := mustCheck(t, p.DB); found.Worst() != sqllock.SeverityInfo || found.Pooler != "" || found.Standby || found.Err() != nil {
					t.Fatalf("%v", found)
				}
				p.DB.Close()
			}
		})
	}
}

func TestCheckFindsReadOnly(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *testbed.Server{
		"MySQL":   func(t testing.TB) *testbed.Server { return testbed.StartMySQL(t, "--read-only") },
		"MariaDB": func(t testing.TB) *testbed.Server { return testbed.StartMariaDB(t, "--read-only") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			underLoad(t, sql.OpenDB(onMySQL.connector(t, s, "")), true)
			for range times(5, 100) {
				p := newLockPool(t, onMySQL, s, true, "")
				found := mustCheck(t, p.DB)
				if got := topics(found, sqllock.SeverityError); !slices.Equal(got, []string{"standby"}) || !found.Standby || !strings.Contains(found.String(), "read_only") {
					t.Fatalf("%v", found)
				}
				p.DB.Close()
			}
		})
	}
}

// A standby's locks are its own.
func TestCheckFindsStandby(t *testing.T) {
	t.Parallel()
	s := testbed.StartPostgres(t).StartStandby(t)
	for _, k := range []stack{onPgx, onPQ} {
		underLoad(t, sql.OpenDB(k.connector(t, s, "")), true)
		for range times(5, 100) {
			p := newLockPool(t, k, s, true, "")
			found := mustCheck(t, p.DB)
			if got := topics(found, sqllock.SeverityError); !slices.Equal(got, []string{"standby"}) || !found.Standby || found.Pooler != "" {
				t.Fatalf("%s: %v", k.name, found)
			}
			p.DB.Close()
		}
	}
}

// Settings that would cut a holder.
func TestCheckFindsTimeouts(t *testing.T) {
	t.Run("pgx", func(t *testing.T) {
		s := testbed.Postgres(t).NewDatabase(t)
		params, topicsWant := "idle_in_transaction_session_timeout=20000&default_transaction_read_only=on", []string{"standby", "time-out"}
		want := []string{"idle_in_transaction_session_timeout is 20s"}
		if !s.Before(14) {
			params, topicsWant, want = params+"&idle_session_timeout=30000", append(topicsWant, "time-out"), append(want, "idle_session_timeout is 30s")
		}
		found := mustCheck(t, newLockPool(t, onPgx, s, true, params).DB)
		if got := topics(found, sqllock.SeverityWarning); !slices.Equal(got, topicsWant) {
			t.Errorf("%v\n%v", got, found)
		}
		for _, want := range want {
			if !strings.Contains(found.String(), want) {
				t.Errorf("without %q:\n%v", want, found)
			}
		}
	})
	for _, k := range []stack{onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			p := newLockPool(t, k, k.server(t).NewDatabase(t), true, "wait_timeout=60")
			if found := mustCheck(t, p.DB); !slices.Equal(topics(found, sqllock.SeverityWarning), []string{"time-out"}) {
				t.Errorf("%v", found)
			}
		})
	}
}

// A pool of one connection has no place for a lock beside the work.
func TestCheckLooksAtThePool(t *testing.T) {
	for _, k := range []stack{onPgx, onPQ, onMySQL} {
		p := newLockPool(t, k, k.server(t).NewDatabase(t), false, "")
		p.SetMaxOpenConns(1)
		found := mustCheck(t, p.DB)
		if !slices.Contains(topics(found, sqllock.SeverityError), "pool") {
			t.Errorf("%s: %v", k.name, found)
		}
	}
	p := newLockPool(t, onPgx, testbed.Postgres(t).NewDatabase(t), false, "")
	p.SetMaxOpenConns(2000)
	if found := mustCheck(t, p.DB); !slices.Equal(topics(found, sqllock.SeverityWarning), []string{"pool"}) {
		t.Errorf("%v", found)
	}
}

// Programs read the same findings.
func TestFindingsJSON(t *testing.T) {
	p := newLockPool(t, onPgx, testbed.PgBouncer(t, "transaction").NewDatabase(t), true, "")
	found := mustCheck(t, p.DB)
	text, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	var back sqllock.Findings
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back.String() != found.String() || back.Worst() != sqllock.SeverityError {
		t.Errorf("%s\n%v\n%v", text, found, back)
	}
	for _, want := range []string{`"pooler":"transaction"`, `"severity":"error"`, `"topic":"pooler"`, `"kind":"PostgreSQL"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("without %s: %s", want, text)
		}
	}
}

// A server that lets two sessions have one lock is found out, whatever it calls itself.
func TestCheckFindsNoExclusion(t *testing.T) {
	db, m, err := sqlmock.New(sqlmock.QueryMatcherOption(sqlmock.QueryMatcherRegexp))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m.MatchExpectationsInOrder(false)
	m.ExpectQuery(`SELECT version`).WillReturnRows(row("PostgreSQL 99.1, or so it says"))
	m.ExpectQuery(`pg_is_in_recovery`).WillReturnRows(row(false, 1, 1))
	m.ExpectQuery(`pg_settings`).WillReturnRows(sqlmock.NewRows([]string{"name", "setting"}).AddRow("max_connections", "100"))
	for range 200 { // two clients by turns: sqlmock cannot tell them apart, so that the experiment sees a pooler here
		m.ExpectQuery(`pg_backend_pid`).WillReturnRows(row(7, "then"))
		m.ExpectBegin()
		m.ExpectRollback()
	}
	for range 2 {
		m.ExpectQuery(`pg_try_advisory_xact_lock`).WillReturnRows(row(true))
	}
	found, err := sqllock.Check(t.Context(), db)
	if err != nil || !slices.Contains(topics(found, sqllock.SeverityError), "exclusion") {
		t.Errorf("%v, %v", found, err)
	}
}

// What cannot be reached is an error, with the driver's own in it.
func TestCheckErrors(t *testing.T) {
	if _, err := sqllock.Check(t.Context(), nil); err == nil {
		t.Error("a nil pool passed")
	}
	p := newLockPool(t, onPgx, testbed.Postgres(t).NewDatabase(t), false, "")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqllock.Check(over, p.DB); !errors.Is(err, context.Canceled) {
		t.Errorf("with a dead context: %v", err)
	}
	if _, err := sqllock.Holders(over, p.DB); !errors.Is(err, context.Canceled) {
		t.Errorf("with a dead context: %v", err)
	}
	p.DB.Close()
	if _, err := sqllock.Check(t.Context(), p.DB); err == nil || !strings.HasPrefix(err.Error(), "sqllock: check: ") {
		t.Errorf("with a closed pool: %v", err)
	}
}
