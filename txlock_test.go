package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

// withTable gives the pool's database a table that the jobs write to.
func withTable(t testing.TB, p *lockPool) *lockPool {
	t.Helper()
	mustExec(t, p.DB, "CREATE TABLE done (n INT UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	return p
}

func insert(tx *sql.Tx) error {
	_, err := tx.Exec("INSERT INTO done VALUES (1)")
	return err
}

func (p *lockPool) wantRows(t testing.TB, n string) {
	t.Helper()
	if got := value(t, p, "SELECT count(*) FROM done"); got != n {
		t.Errorf("%s rows, want %s", got, n)
	}
	mustExec(t, p.DB, "DELETE FROM done")
	p.server.AwaitFree(t, time.Second)
}

func TestRunExclusive(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		withTable(t, p)
		ran, err := sqllock.RunExclusive(t.Context(), p.DB, testKey(t), func(tx *sql.Tx) error {
			for _, key := range []sqllock.Key{testKey(t), sqllock.ID(testKey(t).Int64())} {
				ran, err := sqllock.RunExclusive(t.Context(), p.DB, key, insert)
				if ran || err != nil {
					t.Errorf("beside another: %v, %v", ran, err)
				}
			}
			if _, err := p.locker(t).TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrHeld) {
				t.Errorf("a session lock beside it: %v", err)
			}
			return insert(tx)
		})
		if !ran || err != nil {
			t.Errorf("RunExclusive: %v, %v", ran, err)
		}
		p.wantRows(t, "1")
		lock := mustTry(t, p.locker(t), testKey(t))
		if ran, err := sqllock.RunExclusive(t.Context(), p.DB, testKey(t), insert); ran || err != nil {
			t.Errorf("beside a session lock: %v, %v", ran, err)
		}
		mustRelease(t, lock)
		p.wantRows(t, "0")
	}, onPgx, onPQ)
}

func TestRunExclusiveFails(t *testing.T) {
	mine := errors.New("the job's")
	for _, c := range []struct {
		name string
		job  func(*sql.Tx) error
		want error // nil: any
		rows string
	}{
		{"error", func(tx *sql.Tx) error { insert(tx); return mine }, mine, "0"},
		{"Commit", func(tx *sql.Tx) error { insert(tx); return tx.Commit() }, sqllock.ErrLost, "1"},
		{"Rollback", func(tx *sql.Tx) error { insert(tx); return tx.Rollback() }, sqllock.ErrLost, "0"},
		{"COMMIT as text", func(tx *sql.Tx) error { insert(tx); return execText(tx, "COMMIT") }, sqllock.ErrLost, "1"},
		{"another transaction as text", func(tx *sql.Tx) error { insert(tx); return execText(tx, "COMMIT", "BEGIN") }, sqllock.ErrLost, "1"},
		{"AND CHAIN", func(tx *sql.Tx) error { insert(tx); return execText(tx, "COMMIT AND CHAIN") }, sqllock.ErrLost, "1"},
		{"an error that the job hides", func(tx *sql.Tx) error { insert(tx); insert(tx); execText(tx, "SELECT no_such_column"); return nil }, nil, "0"},
		{"the commit", func(tx *sql.Tx) error { insert(tx); return insert(tx) }, nil, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, k := range []stack{onPgx, onPQ} {
				p := withTable(t, newLockPool(t, k, k.server(t).NewDatabase(t), true, ""))
				ran, err := sqllock.RunExclusive(t.Context(), p.DB, testKey(t), c.job)
				if !ran || err == nil || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("%s: %v, %v", k.name, ran, err)
				}
				p.reports.take() // transactions that text ended or began are the guard's business
				p.wantRows(t, c.rows)
			}
		})
	}
}

func execText(tx *sql.Tx, texts ...string) error {
	for _, text := range texts {
		if _, err := tx.Exec(text); err != nil {
			return err
		}
	}
	return nil
}

func TestRunExclusivePanics(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		withTable(t, p)
		func() {
			defer func() {
				if v := recover(); v != "boom" {
					t.Errorf("recovered %v", v)
				}
			}()
			sqllock.RunExclusive(t.Context(), p.DB, testKey(t), func(tx *sql.Tx) error { insert(tx); panic("boom") })
		}()
		p.wantRows(t, "0")
		var gone sync.WaitGroup
		gone.Go(func() {
			sqllock.RunExclusive(t.Context(), p.DB, testKey(t), func(tx *sql.Tx) error { insert(tx); runtime.Goexit(); return nil })
		})
		gone.Wait()
		p.wantRows(t, "0")
		p.awaitInUse(t, 0)
	}, onPgx, onPQ)
}

func TestRunExclusiveContext(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		withTable(t, p)
		ctx, cancel := context.WithCancel(t.Context())
		ran, err := sqllock.RunExclusive(ctx, p.DB, testKey(t), func(tx *sql.Tx) error {
			defer cancel()
			return insert(tx)
		})
		if !ran || !errors.Is(err, context.Canceled) || errors.Is(err, sqllock.ErrLost) {
			t.Errorf("a context that ends in the job: %v, %v", ran, err)
		}
		p.wantRows(t, "0")
		if ran, err := sqllock.RunExclusive(ctx, p.DB, testKey(t), insert); ran || !errors.Is(err, context.Canceled) {
			t.Errorf("a dead context: %v, %v", ran, err)
		}
		p.awaitInUse(t, 0)
	}, onPgx, onPQ)
}

// The job reads what the holder before it has written, also where the role's isolation level is a higher one.
func TestRunExclusiveReadsFreshData(t *testing.T) {
	for _, k := range []stack{onPgx, onPQ} {
		p := withTable(t, newLockPool(t, k, k.server(t).NewDatabase(t), true, "default_transaction_isolation=serializable"))
		mustExec(t, p.DB, "INSERT INTO done VALUES (0)")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for ran := false; !ran; {
					var err error
					ran, err = sqllock.RunExclusive(t.Context(), p.DB, testKey(t), func(tx *sql.Tx) error {
						var n int
						if err := tx.QueryRow("SELECT n FROM done").Scan(&n); err != nil {
							return err
						}
						_, err := tx.Exec("UPDATE done SET n = $1", n+1)
						return err
					})
					if err != nil {
						t.Errorf("%s: %v", k.name, err)
						return
					}
				}
			})
		}
		all.Wait()
		if n := value(t, p, "SELECT n FROM done"); n != "8" {
			t.Errorf("%s: %s of 8 increments", k.name, n)
		}
	}
}

// Transaction locks work behind a pooler in transaction mode, and leave nothing in it.
func TestRunExclusiveThroughPgBouncer(t *testing.T) {
	for k, params := range map[*stack]string{&onPgx: "default_query_exec_mode=exec", &onPQ: "binary_parameters=yes"} {
		t.Run(k.name, func(t *testing.T) {
			s := testbed.PgBouncer(t, "transaction").NewDatabase(t)
			p := withTable(t, newLockPool(t, *k, s, true, params))
			for range 5 {
				ran, err := sqllock.RunExclusive(t.Context(), p.DB, testKey(t), func(tx *sql.Tx) error {
					if ran, err := sqllock.RunExclusive(t.Context(), p.DB, testKey(t), insert); ran || err != nil {
						t.Errorf("beside another: %v, %v", ran, err)
					}
					return insert(tx)
				})
				if !ran || err != nil {
					t.Errorf("RunExclusive: %v, %v", ran, err)
				}
				p.wantRows(t, "1")
			}
		})
	}
}

func mustBegin(t testing.TB, db *sql.DB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// A snapshot that is older than the lock shows what was before the holder before.
func TestLockTxRefusesOldSnapshots(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			tx := mustBegin(t, p.DB, level)
			for name, lock := range txLocks {
				if err := lock(t.Context(), tx, testKey(t)); !errors.Is(err, sqllock.ErrUnsupported) || !strings.Contains(err.Error(), "READ COMMITTED") {
					t.Errorf("%s at %v: %v", name, level, err)
				}
			}
			p.server.AwaitFree(t, 0) // it was not taken
			tx.Rollback()
		}
	}, onPgx, onPQ)
}

var txLocks = map[string]func(context.Context, *sql.Tx, sqllock.Key) error{
	"LockTx": sqllock.LockTx, "LockTxShared": sqllock.LockTxShared,
	"TryLockTx": tried(sqllock.TryLockTx), "TryLockTxShared": tried(sqllock.TryLockTxShared),
}

func tried(try func(context.Context, *sql.Tx, sqllock.Key) (bool, error)) func(context.Context, *sql.Tx, sqllock.Key) error {
	return func(ctx context.Context, tx *sql.Tx, key sqllock.Key) error {
		ok, err := try(ctx, tx, key)
		if err == nil && !ok {
			err = sqllock.ErrHeld
		}
		return err
	}
}

func TestLockTx(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		for _, key := range []sqllock.Key{testKey(t), sqllock.Pair(1, -2)} {
			a, b := mustBegin(t, p.DB, sql.LevelDefault), mustBegin(t, p.DB, sql.LevelReadCommitted)
			if err := sqllock.LockTx(t.Context(), a, key); err != nil {
				t.Fatal(err)
			}
			for _, shared := range []string{"TryLockTx", "TryLockTxShared"} {
				if err := txLocks[shared](t.Context(), b, key); !errors.Is(err, sqllock.ErrHeld) {
					t.Errorf("%s beside LockTx: %v", shared, err)
				}
			}
			got := make(chan error)
			go func() { got <- sqllock.LockTx(context.Background(), b, key) }()
			awaitWaiting(t, p, "1")
			if err := a.Commit(); err != nil {
				t.Error(err)
			}
			if err := <-got; err != nil {
				t.Errorf("LockTx: %v", err)
			}
			if err := b.Rollback(); err != nil {
				t.Error(err)
			}
			p.server.AwaitFree(t, 0) // the server has released it, at the end of the transaction
		}
	}, onPgx, onPQ)
}

func TestLockTxShared(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		a, b, c := mustBegin(t, p.DB, sql.LevelDefault), mustBegin(t, p.DB, sql.LevelDefault), mustBegin(t, p.DB, sql.LevelDefault)
		for name, tx := range map[string]*sql.Tx{"LockTxShared": a, "TryLockTxShared": b} {
			if err := txLocks[name](t.Context(), tx, testKey(t)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := txLocks["TryLockTx"](t.Context(), c, testKey(t)); !errors.Is(err, sqllock.ErrHeld) {
			t.Errorf("TryLockTx beside shared ones: %v", err)
		}
	}, onPgx, onPQ)
}

func TestLockTxGivesUp(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		a, b := mustBegin(t, p.DB, sql.LevelDefault), mustBegin(t, p.DB, sql.LevelDefault)
		if err := sqllock.LockTx(t.Context(), a, testKey(t)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := sqllock.LockTx(ctx, b, testKey(t)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("LockTx: %v", err)
		}
		a.Rollback() // the driver's cancel request can come before the statement: then that waits on
		awaitWaiting(t, p, "0")
	}, onPgx, onPQ)
}

func TestLockTxDeadlock(t *testing.T) {
	for _, k := range []stack{onPgx, onPQ} {
		p := newLockPool(t, k, k.server(t).NewDatabase(t), true, "deadlock_timeout=20ms")
		x, y := sqllock.Name("x"), sqllock.Name("y")
		results := make(chan error, 2)
		var both sync.WaitGroup
		both.Add(2)
		for _, keys := range [][2]sqllock.Key{{x, y}, {y, x}} {
			go func() {
				tx, err := p.Begin()
				if err == nil {
					defer tx.Rollback()
					err = sqllock.LockTx(context.Background(), tx, keys[0])
				}
				both.Done()
				both.Wait()
				if err == nil {
					err = sqllock.LockTx(context.Background(), tx, keys[1])
				}
				results <- err
			}()
		}
		first, second := <-results, <-results
		if err := errors.Join(first, second); !errors.Is(err, sqllock.ErrDeadlock) || first != nil && second != nil {
			t.Errorf("%s: %v and %v", k.name, first, second)
		}
	}
}
