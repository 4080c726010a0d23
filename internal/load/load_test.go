package load

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

var (
	length = flag.Duration("load.length", 5*time.Second, "how long the load of each server lasts")
	seed   = flag.Uint64("load.seed", 0, "the seed; 0: a new one")
)

// What has to hold however busy the machine is. The throughput is bench/load's.
func TestLoad(t *testing.T) {
	onEach(t, func(t *testing.T, cfg Config) {
		r, err := Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d: %s", cfg.Seed, summary(r))
		for _, p := range append(r.Missed(), r.Unexpected...) {
			t.Error(p)
		}
		for name := range missing(cfg.Driver, r) {
			t.Errorf("nothing leaked by %q", name)
		}
	})
}

// Each way leaks one lock, of which the guard says what the way expects; alone, so that the numbers are each one's own.
func TestWays(t *testing.T) {
	onEach(t, func(t *testing.T, cfg Config) {
		d, _ := dialectOf(cfg.Driver)
		out, err := cfg.outside()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		if err := d.prepare(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		r := &run{cfg: cfg, dialect: d, result: &Result{}}
		if err := r.open(out); err != nil {
			t.Fatal(err)
		}
		defer r.db.Close()
		defer listen(&r.logged)()
		w := &worker{run: r, ctx: t.Context(), n: goroutines - 1}
		for _, way := range d.waysOf(cfg.Driver) {
			before, _ := sqllock.ReadStats(r.db)
			if err := w.leakOnce(&way); err != nil {
				t.Errorf("%s: %v", way.name, err)
			}
			after, _ := sqllock.ReadStats(r.db)
			if n := int(after.Reports - before.Reports); n < way.least || n > way.most {
				t.Errorf("%s: %d reports, want %d to %d", way.name, n, way.least, way.most)
			}
			if left, err := r.watch.leftOver(t.Context()); len(left) > 0 || err != nil {
				t.Errorf("%s: %q, %v", way.name, left, err)
			}
		}
	})
}

func onEach(t *testing.T, f func(t *testing.T, cfg Config)) {
	for _, c := range []struct {
		name, driver string
		server       func(testing.TB) *testbed.Server
	}{{"pgx", "pgx", testbed.Postgres}, {"pq", "pq", testbed.Postgres}, {"MySQL", "mysql", testbed.MySQL}, {"MariaDB", "mysql", testbed.MariaDB}} {
		t.Run(c.name, func(t *testing.T) {
			if *seed == 0 {
				*seed = uint64(time.Now().UnixNano())
			}
			f(t, Config{Driver: c.driver, DSN: c.server(t).NewDatabase(t).DSN(), Length: *length, Seed: *seed})
		})
	}
}

func summary(r *Result) string {
	return fmt.Sprintf("%d leaks, %d seen after the return, for at most %v; %d reports, %d lines", r.Leaks.Made, r.Leaks.Seen, r.Leaks.Longest.Round(time.Millisecond), r.Stats.Reports, r.LogLines)
}

// missing are the ways in which nothing leaked.
func missing(driver string, r *Result) map[string]int64 {
	d, _ := dialectOf(driver)
	none := map[string]int64{}
	for _, w := range d.waysOf(driver) {
		if r.Leaks.PerWay[w.name] == 0 {
			none[w.name] = 0
		}
	}
	return none
}
