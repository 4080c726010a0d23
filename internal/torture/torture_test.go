package torture

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
)

var (
	length = flag.Duration("torture.length", 20*time.Second, "how long to attack, all servers together")
	seed   = flag.Uint64("torture.seed", 0, "the seed of faults and operations; 0 takes one from the clock")
	only   = flag.String("torture.server", "", "the one server to attack: PostgreSQL, MySQL or MariaDB")
)

// TestMain runs a worker, or what a worker has sqllock run, instead of the tests in a process that a test has started.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envSection) != "":
		exit(commandMain())
	case os.Getenv(envDriver) != "":
		exit(workerMain())
	}
	testbed.Main(m)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// The servers commit to the operating system, so that what they confirmed survives that they are killed. They are small,
// so that an attack can fill them.
var targets = []struct {
	kind    string
	start   func(testing.TB, ...string) *testbed.Server
	setting []string
	drivers []string // every other worker has a guarded pool
}{
	{testbed.KindPostgres, testbed.StartPostgres, []string{"synchronous_commit=on", "full_page_writes=on", "max_connections=90", "max_locks_per_transaction=16"}, []string{"pgx-sqllock", "pgx", "pgx-sqllock", "postgres"}},
	{testbed.KindMySQL, testbed.StartMySQL, []string{"--innodb-flush-log-at-trx-commit=2", "--max-connections=90"}, []string{"mysql-sqllock", "mysql"}},
	{testbed.KindMariaDB, testbed.StartMariaDB, []string{"--innodb-flush-log-at-trx-commit=2", "--max-connections=90"}, []string{"mysql-sqllock", "mysql"}},
}

func TestTorture(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: repeat with -torture.seed=%d -torture.length=%v", *seed, *seed, *length)
	if *only != "" && !slices.Contains([]string{testbed.KindPostgres, testbed.KindMySQL, testbed.KindMariaDB}, *only) {
		t.Fatalf("-torture.server=%s is none of %s, %s and %s", *only, testbed.KindPostgres, testbed.KindMySQL, testbed.KindMariaDB)
	}
	each := *length / time.Duration(len(targets))
	if *only != "" {
		each = *length
	}
	for i, target := range targets {
		if *only != "" && *only != target.kind {
			continue
		}
		t.Run(target.kind, func(t *testing.T) {
			s := target.start(t, target.setting...)
			ledger := makeLedger(t, s)
			f := startFleet(t, *seed+uint64(i)<<32, s, target.drivers...)
			attack(t, f, s, each)
			quiet(t, f, s)
			judge(t, f, ledger)
		})
	}
}

func makeLedger(t *testing.T, s *testbed.Server) *jobs.Ledger {
	db := outside(t, s)
	ledger := jobs.NewLedger(db, lockerOn(s, db))
	if err := ledger.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ledger
}

// outside keeps no connection, or it would be a session too many in the end.
func outside(t *testing.T, s *testbed.Server) *sql.DB {
	db := s.Outside(t)
	db.SetMaxIdleConns(0)
	return db
}

func lockerOn(s *testbed.Server, db *sql.DB) sqllock.Locker {
	if s.Kind == testbed.KindPostgres {
		return sqllock.NewPostgres(db)
	}
	return sqllock.NewMySQL(db)
}

// attack strikes workers and server at the same time, with dice of their own.
func attack(t *testing.T, f *fleet, s *testbed.Server, length time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	onWorkers := make(chan counts)
	go func() { onWorkers <- strikeWorkers(ctx, f, rand.New(rand.NewPCG(f.seed, 1))) }()
	struck, when := (&siege{ctx: ctx, t: t, server: s, outside: outside(t, s), links: f.links, Rand: rand.New(rand.NewPCG(f.seed, 2))}).strikeServer()
	f.faults = when
	struck.add(<-onWorkers)
	report(t, "faults", struck)
	f.tell("calm")
	f.calm = time.Now()
	wait(t.Context(), calm)
}

// quiet lets the workers come to rest: nothing may be held then, and nothing left when they end.
func quiet(t *testing.T, f *fleet, s *testbed.Server) {
	left := f.order("quiet", "quiet", 20*time.Second)
	s.AwaitFree(t, silence+5*time.Second)
	left = append(left, f.order("end", "ended", 20*time.Second)...)
	for _, p := range f.alive {
		p.says.Scan() // its end
	}
	if n := sessions(t, s); n != 0 {
		left = append(left, fmt.Sprintf("%d sessions on the server", n))
	}
	left = append(left, f.files()...)
	t.Logf("left over: %d", len(left))
	for _, l := range left {
		t.Error("left over: ", l)
	}
}

// sessions waits for the server to have none of the workers', and returns how many it has all the same.
func sessions(t *testing.T, s *testbed.Server) (n int) {
	query := "SELECT COUNT(*) FROM information_schema.processlist WHERE ID <> CONNECTION_ID() AND USER NOT IN ('event_scheduler', 'system user')"
	if s.Kind == testbed.KindPostgres {
		query = "SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
	}
	db := s.Outside(t)
	db.SetMaxOpenConns(1) // which the query leaves out
	return awaitZero(func() int {
		if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	})
}

// judge reads what the workers wrote down.
func judge(t *testing.T, f *fleet, ledger *jobs.Ledger) {
	var all []*section
	ops, events := counts{}, told(t, f.witness)
	for _, p := range f.all {
		sections, n := p.sections(events[p.name], f.faultsAt(p.place))
		all = append(all, sections...)
		ops.add(n)
	}
	report(t, "operations", ops)
	judgeLife(t, f, events)
	judgeOverlaps(t, byKey(all))
	judgeFence(t, all)
	judgeLedger(t, all, ledger)
}

func judgeOverlaps(t *testing.T, keys map[string][]*section) {
	total, allowed, handedOn := 0, 0, 0
	var longest time.Duration
	for key, sections := range keys {
		var bad []overlap
		for _, o := range overlaps(sections) {
			total++
			switch {
			case o.allowed():
				allowed++
				longest = max(longest, o.lateness())
			case o.handedOn(sections):
				handedOn++
			default:
				bad = append(bad, o)
			}
		}
		if len(bad) > 0 {
			t.Errorf("key %s: %d times two holders at once, first:\n%s", key, len(bad), timeline(sections, bad[0]))
		}
	}
	t.Logf("overlaps: %d, of which with a holder that had lost the lock: %d, told after at most %v; handed on after the loss: %d", total, allowed, longest, handedOn)
}

// judgeFence: the resource refuses only those who were superseded, and they must know.
func judgeFence(t *testing.T, all []*section) {
	written, refused := 0, 0
	for _, s := range all {
		switch {
		case s.Token == 0:
		case !s.Fenced:
			written++
		case s.result == kept || !s.struck(s.to):
			t.Errorf("key %s: the fence refused a holder that had not lost the lock: token %d, %v", s.Key, s.Token, s)
		default:
			refused++
		}
	}
	t.Logf("fenced writes: %d, of which refused: %d", written+refused, refused)
}

// judgeLedger compares the table with what the workers saw: each slot succeeded once at most, a slot whose success was
// confirmed says so, and no two runs of a job have the same token.
func judgeLedger(t *testing.T, all []*section, ledger *jobs.Ledger) {
	records, err := ledger.Runs(t.Context(), "", 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	rows, statuses := map[string]string{}, counts{}
	for _, r := range records {
		rows[fmt.Sprint(r.Job, " ", r.Slot.UnixMicro())] = r.Status
		statuses[r.Status]++
	}
	succeeded, tokens, runs := counts{}, map[string]*section{}, 0
	for _, s := range all {
		if s.Job == "" {
			continue
		}
		runs++
		slot, token := fmt.Sprint(s.Job, " ", s.Slot), fmt.Sprint(s.Job, " ", s.Token)
		if other := tokens[token]; other != nil {
			t.Errorf("one token for two runs: %s:\n%v\n%v", token, other, s)
		}
		tokens[token] = s
		if s.result == kept {
			succeeded[slot]++
		}
		if status := rows[slot]; status == "" || succeeded[slot] > 0 && status != jobs.StatusSucceeded {
			t.Errorf("slot %s is %q in the ledger: %v", slot, status, s)
		}
	}
	for slot, n := range succeeded {
		if n > 1 {
			t.Errorf("slot %s succeeded %d times", slot, n)
		}
	}
	if runs == 0 && *length >= 15*time.Second {
		t.Error("no job ran")
	}
	t.Logf("ledger: %d runs of %d slots: %s", runs, len(rows), statuses)
}

func report(t *testing.T, what string, c counts) {
	total := 0
	for _, n := range c {
		total += n
	}
	t.Logf("%s: %d: %s", what, total, c)
}

func (c counts) String() string {
	var parts []string
	for _, kind := range c.kinds() {
		parts = append(parts, fmt.Sprintf("%s %d", kind, c[kind]))
	}
	return strings.Join(parts, ", ")
}
