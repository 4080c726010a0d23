package load

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sqllock/sqllock"
)

// The load, as the bar says it.
const (
	goroutines  = 200
	leaking     = 20
	connections = 20
	// MaxVisible is how long a leaked lock may be seen from outside after its connection went back.
	MaxVisible = time.Second
)

// A Config says what is run.
type Config struct {
	Driver string // "pgx", "pq" or "mysql"
	DSN    string // of a database whose tables named load_* may be made anew
	Length time.Duration
	Seed   uint64
	Policy sqllock.Policy
	Pause  time.Duration // of a goroutine that leaks, after each leak
}

// A Result is what came of it.
type Result struct {
	Seed  uint64
	Took  time.Duration
	Leaks Leaks

	Clean, Leaky Rates    // medians over the phases of a kind
	Phases       int      // of each kind
	Connect      Connects // what opening a connection took

	Heap, Goroutines, Sessions Trend

	Stats      sqllock.Stats
	LogLines   int64    // that the reports came to
	Unexpected []string // what failed that should not have; the first few
	LeftOver   []string // what was held when all had ended
}

// Leaks are the locks that were leaked, and how long they stayed.
type Leaks struct {
	Made                     int64
	LeastReports, MostReport int64         // that these must come to, by how they were made
	Seen                     int64         // seen from outside at least once after the return
	Longest                  time.Duration // that one was seen for
	LongestWay               string
	AtMost                   time.Duration // the longest until the end of the first look that saw a lock no more, or not at all; with Longest, it brackets the truth
	LongestLook              time.Duration // between two looks
	Looks                    int64
	Late                     []string // seen for longer than MaxVisible
	PerWay                   map[string]int64
}

// Rates are a phase's, by the second.
type Rates struct{ Ordinary, Leaks, Connects float64 }

// Run runs the load.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	d, err := dialectOf(cfg.Driver)
	if err != nil {
		return nil, err
	}
	out, err := cfg.outside()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if err := d.prepare(ctx, out); err != nil {
		return nil, fmt.Errorf("load: prepare: %w", err)
	}
	r := &run{cfg: cfg, dialect: d, result: &Result{Seed: cfg.Seed}}
	if err := r.open(out); err != nil {
		return nil, err
	}
	defer listen(&r.logged)()
	began := time.Now()
	err = r.all(ctx)
	r.result.Took = time.Since(began)
	return r.result, errors.Join(err, r.db.Close())
}

// A run is one Run that goes on.
type run struct {
	cfg     Config
	dialect *dialect
	db      *sql.DB
	meter   *meter // of the connections that db opens
	watch   *watch
	trend   *trends
	logged  counter
	problems
	result *Result
}

func (r *run) open(out *sql.DB) error {
	c, err := r.cfg.connector()
	if err != nil {
		return err
	}
	r.meter = &meter{Connector: c}
	r.db = sqllock.OpenDB(r.meter, sqllock.WithLockFunctions("load_lock"), sqllock.WithPolicy(r.cfg.Policy))
	r.db.SetMaxOpenConns(connections)
	r.db.SetMaxIdleConns(connections)
	r.watch = newWatch(r.dialect, out)
	r.trend = &trends{}
	return nil
}

// all is the run from its first phase to the last look.
func (r *run) all(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- r.watch.run(watching, r.trend) }()
	r.phases(ctx)
	left, err := r.watch.leftOver(ctx)
	stop()
	err = errors.Join(err, <-watched)
	res := r.result
	res.LeftOver, res.Unexpected, res.Connect = left, r.first(), r.meter.all()
	res.LogLines = r.logged.Load()
	r.watch.report(&res.Leaks)
	res.Heap, res.Goroutines, res.Sessions = r.trend.result()
	stats, e := sqllock.ReadStats(r.db)
	res.Stats = stats
	return errors.Join(err, e, ctx.Err())
}
