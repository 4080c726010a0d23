package sqllock

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Ensure that an option that makes no sense is an error that names what would, and that a nil option is none.
func TestOptionErrors(t *testing.T) {
	fake := &fakeDriver{shape: modern}
	for _, c := range []struct {
		opt  Option
		want string
	}{
		{WithDialect(0), "WithDialect(0): use DialectPostgres or DialectMySQL"},
		{WithReport(nil), "WithReport(nil): leave the option out to report to log/slog"},
		{WithPolicy(ReportOnly + 1), "WithPolicy(3): use Discard, Reset or ReportOnly"},
		{WithProbe(ProbeNever + 1), "WithProbe(3): use ProbeOnDoubt, ProbeAlways or ProbeNever"},
		{WithProbeTimeout(0), "WithProbeTimeout(0s): must be positive; WithProbe(ProbeNever) sends nothing"},
		{WithProbeTimeout(-time.Second), "WithProbeTimeout(-1s): must be positive; WithProbe(ProbeNever) sends nothing"},
		{WithHoldLimit(-time.Second), "WithHoldLimit(-1s): must not be negative"},
		{WithLockFunctions("app.lock_job", "lock()"), `"lock()" is not a function's name: write name or schema.name, without quotes and parentheses`},
	} {
		t.Run(c.want, func(t *testing.T) {
			_, err := newConfig(fake, []Option{WithDialect(DialectPostgres), c.opt})
			if err == nil || err.Error() != "sqllock: "+c.want {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := newConfig(fake, []Option{nil, WithDialect(DialectPostgres), nil}); err != nil {
		t.Errorf("nil option: %v", err)
	}
}

func TestOptionNames(t *testing.T) {
	for _, c := range []struct {
		v    fmt.Stringer
		want string
	}{
		{Discard, "Discard"}, {Reset, "Reset"}, {ReportOnly, "ReportOnly"}, {Policy(9), "Policy(9)"},
		{Kept, "kept"}, {Discarded, "discarded"}, {ResetKept, "reset"},
		{Leak, "Leak"}, {HeldTooLong, "HeldTooLong"}, {Kind(99), "Kind(99)"},
		{DialectPostgres, "PostgreSQL"}, {DialectMySQL, "MySQL"}, {Dialect(0), "unknown"},
	} {
		if got := c.v.String(); got != c.want {
			t.Errorf("%T(%d): %s, want %s", c.v, c.v, got, c.want)
		}
	}
}

// ownAndClose are the statements of the guard's own and the closing of connections, in order.
func (srv *fakeServer) ownAndClose() string {
	names := strings.NewReplacer(fmt.Sprintf("%q", pgProbe), "probe", fmt.Sprintf("%q", pgReset), "reset", fmt.Sprintf("%q", rollback), "rollback", "Conn.Close", "close")
	var all []string
	for _, c := range srv.allCalls() {
		fields := strings.Fields(names.Replace(c))
		for _, what := range []string{"probe", "reset", "rollback", "close"} {
			if slices.Contains(fields, what) {
				all = append(all, fields[0]+" "+what)
			}
		}
	}
	return strings.Join(all, ", ")
}

// What each policy and each probe setting do with a connection that comes back.
func TestPoliciesAndProbes(t *testing.T) {
	const (
		plain   = "SELECT pg_advisory_lock(1)"
		doubt   = "SELECT pg_advisory_lock(1), pg_advisory_unlock(1)" // nothing held, but who knows
		doubted = "SELECT pg_try_advisory_lock(1) OFFSET 1"           // held
		unseen  = "SELECT locks_unseen(1)"
		clean   = "SELECT 1"
		manual  = "BEGIN"
		failed  = "SELECT pg_advisory_lock(2)" // the test makes it fail after the grant
	)
	always, never := WithProbe(ProbeAlways), WithProbe(ProbeNever)
	reset, reportOnly := WithPolicy(Reset), WithPolicy(ReportOnly)
	for _, c := range []struct {
		name, text, own, reports string
		opts                     []Option
		kept                     bool
		held                     int
		stats                    Stats
	}{
		{name: "clean", text: clean, kept: true},
		{name: "leak", text: plain, own: "1 rollback, 1 reset, 1 close", reports: "Leak discarded", stats: Stats{LocksAcquired: 1, LocksLeaked: 1, ConnsDiscarded: 1, Reports: 1}},
		{name: "doubt", text: doubt, own: "1 probe", kept: true, stats: Stats{Probes: 1}},
		{name: "doubt with reason", text: doubted, own: "1 probe, 1 rollback, 1 reset, 1 close", reports: "Leak discarded", stats: Stats{LocksAcquired: 1, LocksLeaked: 1, ConnsDiscarded: 1, Probes: 1, Reports: 1}},
		{name: "error", text: failed, own: "1 probe, 1 rollback, 1 reset, 1 close", reports: "Leak discarded", stats: Stats{LocksAcquired: 1, LocksLeaked: 1, ConnsDiscarded: 1, Probes: 1, Reports: 1}},
		{name: "manual transaction", text: manual, own: "1 rollback, 1 reset, 1 close", reports: "Unverified discarded", stats: Stats{ConnsDiscarded: 1, Reports: 1}},
		{name: "unseen: the documented limit", text: unseen, kept: true, held: 1},

		{name: "Reset, leak", opts: []Option{reset}, text: plain, own: "1 reset", reports: "Leak reset", kept: true, stats: Stats{LocksAcquired: 1, LocksReleased: 1, LocksLeaked: 1, Reports: 1}},
		{name: "Reset, doubt", opts: []Option{reset}, text: doubt, own: "1 probe", kept: true, stats: Stats{Probes: 1}},
		{name: "Reset, doubt with reason", opts: []Option{reset}, text: doubted, own: "1 probe, 1 reset", reports: "Leak reset", kept: true, stats: Stats{LocksAcquired: 1, LocksReleased: 1, LocksLeaked: 1, Probes: 1, Reports: 1}},
		{name: "Reset, manual transaction", opts: []Option{reset}, text: manual, own: "1 rollback, 1 reset, 1 close", reports: "Unverified discarded", stats: Stats{ConnsDiscarded: 1, Reports: 1}},

		{name: "ReportOnly, leak", opts: []Option{reportOnly}, text: plain, reports: "Leak kept", kept: true, held: 1, stats: Stats{LocksHeld: 1, LocksAcquired: 1, LocksLeaked: 1, Reports: 1}},
		{name: "ReportOnly, doubt", opts: []Option{reportOnly}, text: doubt, reports: "Unverified kept", kept: true, stats: Stats{Reports: 1}},
		{name: "ReportOnly, manual transaction", opts: []Option{reportOnly}, text: manual, reports: "Unverified kept", kept: true, stats: Stats{Reports: 1}},

		{name: "ProbeAlways, clean", opts: []Option{always}, text: clean, own: "1 probe", kept: true, stats: Stats{Probes: 1}},
		{name: "ProbeAlways, unseen", opts: []Option{always}, text: unseen, own: "1 probe, 1 rollback, 1 reset, 1 close", reports: "Leak discarded", stats: Stats{LocksAcquired: 1, LocksLeaked: 1, ConnsDiscarded: 1, Probes: 1, Reports: 1}},
		{name: "ProbeAlways, Reset, unseen", opts: []Option{always, reset}, text: unseen, own: "1 probe, 1 reset", reports: "Leak reset", kept: true, stats: Stats{LocksAcquired: 1, LocksReleased: 1, LocksLeaked: 1, Probes: 1, Reports: 1}},

		{name: "ProbeNever, clean", opts: []Option{never}, text: clean, kept: true},
		{name: "ProbeNever, leak", opts: []Option{never}, text: plain, own: "1 rollback, 1 reset, 1 close", reports: "Leak discarded", stats: Stats{LocksAcquired: 1, LocksLeaked: 1, ConnsDiscarded: 1, Reports: 1}},
		{name: "ProbeNever, doubt", opts: []Option{never}, text: doubt, own: "1 rollback, 1 reset, 1 close", reports: "Unverified discarded", stats: Stats{ConnsDiscarded: 1, Reports: 1}},
		{name: "ProbeNever, Reset, leak", opts: []Option{never, reset}, text: plain, own: "1 reset", reports: "Leak reset", kept: true, stats: Stats{LocksAcquired: 1, LocksReleased: 1, LocksLeaked: 1, Reports: 1}},
		{name: "ProbeNever, ReportOnly, doubt", opts: []Option{never, reportOnly}, text: doubt, reports: "Unverified kept", kept: true, stats: Stats{Reports: 1}},

		{name: "lock function", opts: []Option{WithLockFunctions("locks_unseen")}, text: unseen, own: "1 probe, 1 rollback, 1 reset, 1 close", reports: "Leak discarded", stats: Stats{LocksAcquired: 1, LocksLeaked: 1, ConnsDiscarded: 1, Probes: 1, Reports: 1}},
		{name: "lock function, not called", opts: []Option{WithLockFunctions("locks_unseen")}, text: clean, kept: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, c.opts, func(t *testing.T, srv *fakeServer, db *sql.DB) {
				srv.lenient = c.held > 0
				srv.inject(failed, failAfter(&fakeError{"after"}))
				err := drainRows(db.QueryContext(t.Context(), c.text))
				if (err != nil) != (c.text == failed) {
					t.Fatal(err)
				}
				if got := srv.ownAndClose(); got != c.own {
					t.Errorf("the guard sent %q, want %q", got, c.own)
				}
				var reports []string
				for _, r := range srv.allReports() {
					reports = append(reports, fmt.Sprint(r.Kind, " ", r.Action))
				}
				if got := strings.Join(reports, ", "); got != c.reports {
					t.Errorf("reports %q, want %q", got, c.reports)
				}
				if kept := db.Stats().OpenConnections == 1; kept != c.kept {
					t.Errorf("kept %v", kept)
				}
				if got := srv.held(); got != c.held {
					t.Errorf("%d locks held on the server, want %d", got, c.held)
				}
				if got, err := ReadStats(db); err != nil || got != c.stats {
					t.Errorf("stats %+v, %v\nwant  %+v", got, err, c.stats)
				}
				clear(srv.faults)
			})
		})
	}
}

// ReportOnly is for a first rollout: whatever a program does, the driver sees what it would see without the guard.
func TestReportOnlySendsNothing(t *testing.T) {
	sent := func(t *testing.T, way int, text string, f fault, bare bool) (calls []string) {
		synctest.Test(t, func(t *testing.T) {
			srv := newFakeServer(t)
			srv.bare = bare
			if f != nil {
				srv.inject(text, f)
			}
			db := srv.openDB(modern, WithPolicy(ReportOnly))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_ = fakeWays[way].send(ctx, db, text)
			_ = drainRows(db.QueryContext(ctx, "SELECT pg_advisory_unlock(1)"))
			_ = db.Close()
			calls = srv.allCalls()
			srv.bare = true // of what it kept, it says nothing more
		})
		return calls
	}
	for way, w := range fakeWays {
		for _, f := range fakeFaults {
			for _, text := range append(slices.Clone(fakeAcquires), "BEGIN", "SELECT 1", "SELECT locks_unseen(1)") {
				if strings.HasPrefix(f.name, "bad connection") && (w.name == "transaction" || w.name == "rolled back") {
					continue // database/sql forgets ErrBadConn at the end of a transaction, the guard does not
				}
				t.Run(strings.Join([]string{w.name, f.name, text}, "/"), func(t *testing.T) {
					if d := firstDifference(sent(t, way, text, f.fault, true), sent(t, way, text, f.fault, false)); d != "" {
						t.Error(d)
					}
				})
			}
		}
	}
}

// ReportOnly says each thing once, however often the connection comes back.
func TestReportOnlyReportsOnce(t *testing.T) {
	inBubble(t, []Option{WithPolicy(ReportOnly)}, func(t *testing.T, srv *fakeServer, db *sql.DB) {
		db.SetMaxOpenConns(1)
		for range 3 {
			ask(t, db, "SELECT pg_advisory_lock(1)")
			ask(t, db, "SELECT 1")
		}
		if got := srv.kinds(); got != "Leak" {
			t.Errorf("reports %q, want one", got)
		}
		ask(t, db, "SELECT pg_advisory_lock(2)")
		if got := srv.kinds(); got != "Leak Leak" {
			t.Errorf("reports %q, want one more for another lock", got)
		}
		if r := srv.allReports()[1]; len(r.Holds) != 1 || r.Holds[0].Key != "2" {
			t.Errorf("the second report is about %v", r.Holds)
		}
		if held, _ := Held(db); len(held) != 2 || held[0].Key != "1" || held[0].Count != 3 {
			t.Errorf("held %v", held)
		}
	})
}

// A limit is reported once for each lock, and never for one that is gone, however it went.
func TestHoldLimit(t *testing.T) {
	const limit = time.Minute
	for _, c := range []struct {
		name, want string
		program    func(t *testing.T, srv *fakeServer, db *sql.DB)
	}{
		{"held on", "HeldTooLong", func(t *testing.T, srv *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(1)")
			ask(t, c, "SELECT pg_advisory_lock(1)")
			time.Sleep(limit - 1) // on the bubble's clock
			if synctest.Wait(); srv.kinds() != "" {
				t.Error("reported early")
			}
			time.Sleep(10 * limit)
			if r := srv.allReports(); len(r) != 1 || r[0].Holds[0].Key != "1" || r[0].Holds[0].Count != 2 || r[0].Place() == "" {
				t.Errorf("reports %v", r)
			}
			ask(t, c, "SELECT pg_advisory_unlock_all()")
		}},
		{"released", "", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(1)")
			ask(t, c, "SELECT pg_advisory_unlock(1)")
		}},
		{"all released", "", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(1)")
			ask(t, c, "SELECT pg_advisory_unlock_all()")
		}},
		{"leaked and discarded", "Leak", func(t *testing.T, _ *fakeServer, db *sql.DB) { ask(t, db, "SELECT pg_advisory_lock(1)") }},
		{"unverified and discarded", "Unverified", func(t *testing.T, _ *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(1)")
			if _, err := c.ExecContext(t.Context(), "BEGIN"); err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
		}},
		{"session died", "SessionDied", func(t *testing.T, srv *fakeServer, db *sql.DB) {
			c := pinnedTo(t, db)
			ask(t, c, "SELECT pg_advisory_lock(1)")
			srv.inject("SELECT 1", dies)
			_, _ = c.ExecContext(t.Context(), "SELECT 1")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, []Option{WithHoldLimit(limit)}, func(t *testing.T, srv *fakeServer, db *sql.DB) {
				c.program(t, srv, db)
				time.Sleep(10 * limit) // on the bubble's clock
				synctest.Wait()
				if got := srv.kinds(); got != c.want {
					t.Errorf("reports %q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestStacks(t *testing.T) {
	for _, on := range []bool{true, false} {
		inBubble(t, []Option{WithStacks(on)}, func(t *testing.T, srv *fakeServer, db *sql.DB) {
			ask(t, db, "SELECT pg_advisory_lock(1)")
			r := srv.allReports()[0]
			if got := r.Stack != nil && r.Holds[0].Stack != nil; got != on {
				t.Errorf("WithStacks(%v): stacks %v", on, got)
			}
			if got := r.Place() != "" && r.Holds[0].Place() != ""; got != on {
				t.Errorf("WithStacks(%v): places %q, %q", on, r.Place(), r.Holds[0].Place())
			}
		})
	}
}

// The bound is for everything that the guard sends at one return.
func TestProbeTimeout(t *testing.T) {
	const bound = 3 * time.Second
	inBubble(t, []Option{WithProbeTimeout(bound)}, func(t *testing.T, srv *fakeServer, db *sql.DB) {
		for _, own := range []string{pgProbe, rollback, pgReset} {
			srv.inject(own, hangs(false))
		}
		start := time.Now()
		if err := drainRows(db.Query("SELECT pg_try_advisory_lock(1) OFFSET 1")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > bound {
			t.Errorf("the return took %v, want at most %v", took, bound)
		}
		r := srv.allReports()
		if len(r) != 1 || r[0].Kind != Unverified || !errors.Is(r[0].Err, context.DeadlineExceeded) {
			t.Errorf("reports %v", r)
		}
		if srv.held() != 0 {
			t.Error("the lock is held")
		}
		clear(srv.faults)
	})
}

// A reportLog is a log without what other tests' forgotten locks say, whenever the garbage collector finds them.
type reportLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *reportLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.Contains(line, []byte("dropped without Release")) {
		return len(line), nil
	}
	return l.b.Write(line)
}

func (l *reportLog) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

func (l *reportLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A report goes to slog by default, once, at Warn; a receiver that panics costs nothing but its report.
func TestReportReceivers(t *testing.T) {
	var log reportLog
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(was) })
	for _, c := range []struct {
		name string
		opts []Option
		want []string
	}{
		{"default", []Option{optionFunc(func(c *config) error { c.report = nil; return nil })}, []string{"level=WARN", "kind=Leak", "action=discarded", "advisory lock 1 (exclusive)"}},
		{"panics", []Option{WithReport(func(Report) { panic("receiver") })}, []string{"level=ERROR", "receiver", "kind=Leak"}},
		{"log panics", []Option{WithReport(func(Report) { slog.SetDefault(slog.New(brokenLog{slog.NewTextHandler(&log, nil)})); panic("receiver") })}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			log.Reset()
			inBubble(t, c.opts, func(t *testing.T, srv *fakeServer, db *sql.DB) {
				srv.bare = true // nothing comes to srv.report
				c := pinnedTo(t, db)
				ask(t, c, "SELECT pg_advisory_lock(1)")
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if srv.held() != 0 || db.Stats().OpenConnections != 0 {
					t.Errorf("%d locks held, %d connections", srv.held(), db.Stats().OpenConnections)
				}
				ask(t, db, "SELECT 1")
			})
			for _, w := range c.want {
				if n := strings.Count(log.String(), "level="); n != 1 || !strings.Contains(log.String(), w) {
					t.Errorf("the log has %d lines and lacks %q:\n%s", n, w, log.String())
				}
			}
		})
	}
}

// An option that is given twice counts as it was given last.
func TestLastOptionWins(t *testing.T) {
	c, err := newConfig(&fakeDriver{shape: modern}, []Option{WithDialect(DialectMySQL), WithPolicy(Reset), WithPolicy(Discard), WithDialect(DialectPostgres)})
	if err != nil || c.policy != Discard || c.dialect != DialectPostgres {
		t.Errorf("%+v, %v", c, err)
	}
}

// brokenLog is a program's own log that does not work, but for what other tests say meanwhile.
type brokenLog struct{ slog.Handler }

func (l brokenLog) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "WithReport panicked") {
		panic("log")
	}
	return l.Handler.Handle(ctx, r)
}
