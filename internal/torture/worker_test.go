package torture

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "github.com/lib/pq"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs"
	_ "github.com/sqllock/sqllock/mysqllock"
	_ "github.com/sqllock/sqllock/pgxlock"
)

// The environment that makes a process of this test binary a worker.
const (
	envDriver  = "SQLLOCK_TORTURE_DRIVER"
	envDSN     = "SQLLOCK_TORTURE_DSN"
	envName    = "SQLLOCK_TORTURE_NAME"
	envWitness = "SQLLOCK_TORTURE_WITNESS"
	envSeed    = "SQLLOCK_TORTURE_SEED"
	envProgram = "SQLLOCK_TORTURE_PROGRAM" // sqllock itself
	envSection = "SQLLOCK_TORTURE_SECTION" // these two make it what sqllock runs
	envKey     = "SQLLOCK_TORTURE_KEY"
)

const (
	keepalive = 300 * time.Millisecond
	silence   = 2 * time.Second
	promised  = keepalive + (silence-keepalive)/2 // the documentation's words for when a holder is told at the latest
	calm      = 3 * silence                       // from the last fault to the end
	loops     = 6                                 // goroutines of a worker that use locks
	poolSize  = 12                                // dedicated pins and waiters need one connection each
)

type locker interface {
	sqllock.Locker
	Close() error
}

// A worker is a process with one pool, on which its loops use every kind of lock.
type worker struct {
	*witness
	db        *sql.DB
	postgres  bool
	guarded   bool
	shared    locker         // many locks on one pin
	readers   sqllock.Locker // the same one's shared locks; nil on MySQL
	dedicated locker         // a pin for each lock
	ledger    *jobs.Ledger
	stopping  <-chan struct{} // closed when the work is over
}

func newWorker(witness *witness) (*worker, error) {
	driver := os.Getenv(envDriver)
	db, err := sql.Open(driver, os.Getenv(envDSN))
	if err != nil {
		return nil, err
	}
	w := &worker{witness: witness, db: db, postgres: driver[0] == 'p', guarded: strings.HasSuffix(driver, "-sqllock")}
	w.setPool()
	options := []sqllock.LockerOption{sqllock.WithKeepalive(keepalive), sqllock.WithSilenceBound(silence)}
	if w.postgres {
		l := sqllock.NewPostgres(db, options...)
		w.shared, w.readers = l, l.Shared()
		w.dedicated = sqllock.NewPostgres(db, append(options, sqllock.WithDedicatedConn(), sqllock.WithToken())...)
	} else {
		w.shared = sqllock.NewMySQL(db, options...)
		w.dedicated = sqllock.NewMySQL(db, append(options, sqllock.WithDedicatedConn())...)
	}
	w.ledger = jobs.NewLedger(db, w.shared, jobs.WithAttempts(attempts))
	return w, nil
}

// workerMain works until the test says "quiet", from "calm" on with a pool that nobody changes, is idle until it says
// "end", and then ends in good order. A test that has gone ends it, too.
func workerMain() error {
	before := runtime.NumGoroutine()
	witness, err := openWitness()
	if err != nil {
		return err
	}
	w, err := newWorker(witness)
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(os.Getenv(envSeed), 10, 64)
	if err != nil {
		return err
	}
	orders := bufio.NewScanner(os.Stdin)
	ctx, stop := context.WithCancel(context.Background())
	calm, calmed := context.WithCancel(ctx)
	go func() {
		orders.Scan()
		calmed()
		orders.Scan()
		stop()
	}()
	fmt.Println("started")
	w.work(ctx, calm, seed)
	fmt.Println("quiet")
	if orders.Text() != "quiet" || !orders.Scan() {
		os.Exit(1) // the test has gone
	}
	return w.end(before)
}

func (w *worker) work(ctx, calm context.Context, seed uint64) {
	w.stopping = ctx.Done()
	var all sync.WaitGroup
	for i := range loops {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for ctx.Err() == nil {
				w.one(r)
			}
		})
	}
	all.Go(func() { w.lead(ctx, rand.New(rand.NewPCG(seed, loops))) })
	all.Go(func() { w.shrink(calm, rand.New(rand.NewPCG(seed, loops+1))) })
	all.Wait()
}

// shrink changes what the pool may hold, as somebody would who tunes a running service.
func (w *worker) shrink(ctx context.Context, r *rand.Rand) {
	for wait(ctx, between(r, 0, silence)); ctx.Err() == nil; wait(ctx, between(r, 0, silence)) {
		w.db.SetMaxOpenConns(3 + r.IntN(poolSize))
		w.db.SetMaxIdleConns(r.IntN(poolSize))
		w.db.SetConnMaxLifetime(between(r, 10*time.Millisecond, silence))
		w.db.SetConnMaxIdleTime(between(r, 10*time.Millisecond, silence))
	}
	w.setPool()
}

// setPool keeps connections: what is left on one is then seen from outside.
func (w *worker) setPool() {
	w.db.SetMaxOpenConns(poolSize)
	w.db.SetMaxIdleConns(poolSize)
	w.db.SetConnMaxLifetime(0)
	w.db.SetConnMaxIdleTime(0)
}

// end says what is left over.
func (w *worker) end(before int) error {
	for _, l := range []locker{w.shared, w.dedicated} {
		if err := l.Close(); err != nil {
			fmt.Println("left: Close:", err)
		}
	}
	if n := awaitZero(func() int { return w.db.Stats().InUse }); n != 0 {
		fmt.Println("left: connections in use:", n)
	}
	if err := w.db.Close(); err != nil {
		fmt.Println("left: closing the pool:", err)
	}
	if err := w.witness.db.Close(); err != nil { // a slow write can leave a reader on pgx's idle connection
		fmt.Println("left: closing the witness:", err)
	}
	if n := awaitZero(func() int { return runtime.NumGoroutine() - before }); n > 0 {
		stacks := make([]byte, 64<<10)
		fmt.Println("left: goroutines:", n)
		os.Stderr.Write(stacks[:runtime.Stack(stacks, true)])
	}
	fmt.Println("ended")
	return nil
}

func awaitZero(count func() int) int {
	for deadline := time.Now().Add(5 * time.Second); count() > 0 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	return count()
}
