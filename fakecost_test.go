package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"math"
	"runtime"
	"testing"
	"unsafe"
)

// What the guard costs, on the fake driver.

// quietPools opens a bare and a guarded pool of one connection each, whose servers keep no record.
func quietPools(t *testing.T) (bare, guarded *sql.DB) {
	pools := [2]*sql.DB{}
	for i := range pools {
		srv := newFakeServer(t)
		srv.bare, srv.quiet = i == 0, true
		pools[i] = srv.openDB(modern)
		pools[i].SetMaxOpenConns(1)
	}
	return pools[0], pools[1]
}

// allocs is the least of some measurements: other goroutines allocate, too.
func allocs(t *testing.T, f func() error) float64 {
	t.Helper()
	least := math.Inf(1)
	for range 5 {
		least = min(least, testing.AllocsPerRun(100, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}))
	}
	return least
}

func TestOrdinaryStatementsAllocateNothingMore(t *testing.T) {
	bare, guarded := quietPools(t)
	ctx := context.Background()
	for _, c := range []struct {
		name string
		make func(t *testing.T, db *sql.DB) func() error
	}{
		{"query", func(_ *testing.T, db *sql.DB) func() error {
			return func() error { return drainRows(db.QueryContext(ctx, "SELECT 1")) }
		}},
		{"query with an argument", func(_ *testing.T, db *sql.DB) func() error {
			return func() error { return drainRows(db.QueryContext(ctx, "SELECT echo($1)", 7)) }
		}},
		{"query row", func(_ *testing.T, db *sql.DB) func() error {
			return func() error { var n int; return db.QueryRowContext(ctx, "SELECT 1").Scan(&n) }
		}},
		{"exec", func(_ *testing.T, db *sql.DB) func() error {
			return func() error { _, err := db.ExecContext(ctx, "SELECT 1"); return err }
		}},
		{"exec with arguments", func(_ *testing.T, db *sql.DB) func() error {
			return func() error { _, err := db.ExecContext(ctx, "SELECT echo($1, $2)", "a", []byte("b")); return err }
		}},
		{"prepare", func(t *testing.T, db *sql.DB) func() error {
			return func() error {
				st, err := db.PrepareContext(ctx, "SELECT 1")
				if err != nil {
					return err
				}
				return st.Close()
			}
		}},
		{"prepared query", func(t *testing.T, db *sql.DB) func() error {
			st := prepare(t, db, "SELECT echo($1)")
			return func() error { return drainRows(st.QueryContext(ctx, 7)) }
		}},
		{"prepared exec", func(t *testing.T, db *sql.DB) func() error {
			st := prepare(t, db, "SELECT echo($1)")
			return func() error { _, err := st.ExecContext(ctx, 7); return err }
		}},
		{"transaction", func(t *testing.T, db *sql.DB) func() error {
			// on the driver's level: database/sql starts a goroutine for each, and the runtime allocates
			// one or takes an old one, as it happens
			c := pinnedTo(t, db)
			var b driver.ConnBeginTx
			_ = c.Raw(func(dc any) error { b = dc.(driver.ConnBeginTx); return nil })
			return func() error {
				tx, err := b.BeginTx(ctx, driver.TxOptions{})
				if err != nil {
					return err
				}
				return tx.Commit()
			}
		}},
		{"ping", func(_ *testing.T, db *sql.DB) func() error { return func() error { return db.PingContext(ctx) } }},
	} {
		t.Run(c.name, func(t *testing.T) {
			without, with := allocs(t, c.make(t, bare)), allocs(t, c.make(t, guarded))
			if with > without {
				t.Errorf("%v allocations, without the guard %v", with, without)
			}
		})
	}
}

func prepare(t *testing.T, db *sql.DB, text string) *sql.Stmt {
	st, err := db.Prepare(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// A lock statement costs some: the observation, its stack, its key, and the observed lane.
func TestLockStatementAllocations(t *testing.T) {
	const most = 25
	bare, guarded := quietPools(t)
	measure := func(db *sql.DB, texts ...string) float64 {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		n := allocs(t, func() error {
			for _, text := range texts {
				if err := drainRows(c.QueryContext(context.Background(), text, 7)); err != nil {
					return err
				}
			}
			return nil
		})
		return n / float64(len(texts))
	}
	for _, acquire := range []string{"SELECT pg_advisory_lock($1)", "SELECT pg_try_advisory_lock($1)"} {
		without := measure(bare, acquire, "SELECT pg_advisory_unlock($1)")
		with := measure(guarded, acquire, "SELECT pg_advisory_unlock($1)")
		t.Logf("%s and its release: %.1f allocations a statement, without the guard %.1f", acquire, with, without)
		if with-without > most {
			t.Errorf("%v allocations a statement more, want at most %d", with-without, most)
		}
	}
}

// A connection on which no lock statement ran costs at most 1 KiB of memory.
func TestMemoryPerConnection(t *testing.T) {
	const n, most = 2000, 1024
	srv := newFakeServer(t)
	srv.lenient = true
	cfg, err := newConfig(&fakeDriver{srv, modern}, []Option{WithDialect(DialectPostgres)})
	if err != nil {
		t.Fatal(err)
	}
	p := newPool(cfg)
	own := modern.conn(&fakeConn{})
	conns := make([]driver.Conn, n)
	before := heap()
	for i := range conns {
		conns[i] = newConn(own, p).presented()
	}
	each := (heap() - before) / n
	t.Logf("%d bytes a connection, of which conn is %d", each, unsafe.Sizeof(conn{}))
	if each > most {
		t.Errorf("%d bytes a connection, want at most %d", each, most)
	}
	runtime.KeepAlive(conns)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
