package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	{"query", func(ctx context.Context, db *sql.DB, text string) error { return drain(db.QueryContext(ctx, text)) }},
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
		return errors.Join(drain(st.QueryContext(ctx)), st.Close())
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
		return errors.Join(drain(c.QueryContext(ctx, text)), c.Close())
	}},
	{"transaction", func(ctx context.Context, db *sql.DB, text string) error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		return errors.Join(drain(tx.QueryContext(ctx, text)), tx.Commit())
	}},
	{"rolled back", func(ctx context.Context, db *sql.DB, text string) error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		return errors.Join(drain(tx.QueryContext(ctx, text)), tx.Rollback())
	}},
}

func drain(rows *sql.Rows, err error) error {
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
func suffer(t *testing.T, way int, text string, f fault, bare bool, opts ...Option) (err error, ran int) {
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
	return err, ran
}

func TestNothingLeaksUnderFaults(t *testing.T) {
	for _, policy := range []Policy{Discard, Reset} {
		for way, w := range fakeWays {
			for _, f := range fakeFaults {
				for _, text := range fakeAcquires {
					if w.name == "query row" && strings.HasSuffix(f.name, "then a row fails") {
						continue // database/sql never sees that row
					}
					t.Run(strings.Join([]string{policy.String(), w.name, f.name, text}, "/"), func(t *testing.T) {
						bareErr, bareRan := suffer(t, way, text, f.fault, true)
						err, ran := suffer(t, way, text, f.fault, false, WithPolicy(policy))
						if fmt.Sprint(err) != fmt.Sprint(bareErr) {
							t.Errorf("the program saw %v, without the guard %v", err, bareErr)
						}
						if ran != bareRan {
							t.Errorf("the statement ran %d times, without the guard %d", ran, bareRan)
						}
					})
				}
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
						c := pinned(t, db)
						ask(t, c, "SELECT pg_advisory_lock(1)")
						if f.fault != nil {
							srv.inject(unlock, f.fault)
						}
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						if rows, err := c.QueryContext(ctx, unlock); err == nil {
							if read {
								_ = drain(rows, nil)
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
				if err := drain(db.Query(c.text)); err != nil {
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

// The guard's own statements go the way that a driver has, and the plain forms need none, whatever it has.
func TestGuardOnEveryShape(t *testing.T) {
	on := func(t *testing.T, shape fakeShape, policy Policy, text, after string) (srv *fakeServer, kept bool) {
		synctest.Test(t, func(t *testing.T) {
			srv = newFakeServer(t)
			db := srv.openDB(shape, WithPolicy(policy))
			c := pinned(t, db)
			srv.inject(text, failBefore(driver.ErrSkip)) // an error, where nothing skips
			for _, q := range []string{text, text, after} {
				_ = drain(c.QueryContext(t.Context(), q))
			}
			_ = c.Close()
			kept = db.Stats().OpenConnections == 1
			if n := srv.held(); n != 0 {
				t.Errorf("%d locks are held", n)
			}
		})
		return srv, kept
	}
	const lock, unlock, all = "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)", "SELECT pg_advisory_unlock_all()"
	const doubt = "SELECT pg_advisory_lock(1) FROM generate_series(1, 3)"
	for _, shape := range fakeShapes {
		for _, c := range []struct {
			name        string
			policy      Policy
			text, after string
			kept        bool
			reports     string
		}{
			{"clean", Discard, lock, all, true, ""},
			{"leak", Discard, lock, "SELECT 1", false, "Leak"},
			{"leak, reset", Reset, lock, "SELECT 1", true, "Leak"},
			{"doubt", Discard, doubt, unlock, false, "Leak"},
			{"doubt, reset", Reset, doubt, unlock, true, "Leak"},
		} {
			t.Run(shape.name+"/"+c.name, func(t *testing.T) {
				srv, kept := on(t, shape, c.policy, c.text, c.after)
				if got := srv.kinds(); got != c.reports || kept != c.kept {
					t.Errorf("reports %q, kept %v; want %q, %v", got, kept, c.reports, c.kept)
				}
				if c.reports == "" && srv.own() != 0 {
					t.Errorf("%d statements of the guard's own", srv.own())
				}
			})
		}
	}
}

// A skipped call did nothing: it leaves no doubt behind.
func TestSkippedIsNoDoubt(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
		const try = "SELECT pg_try_advisory_lock(1)"
		srv.inject(try, failBefore(driver.ErrSkip), refuses)
		if granted := ask(t, db, try); granted != false || srv.own() != 0 {
			t.Errorf("granted %v, %d statements of the guard's own", granted, srv.own())
		}
	})
}

// Keys and texts that the guard cannot read are asked for.
func TestUnreadableArguments(t *testing.T) {
	for _, c := range []struct {
		name, text string
		arg        any
		want       string
	}{
		{"key of the driver's own type", "SELECT pg_advisory_lock($1)", fakeRaw{"7"}, "Leak discarded  [1: advisory lock 7 (exclusive)] SELECT pg_advisory_lock($1)"},
		{"no key at all", "SELECT pg_advisory_lock($1)", nil, ""},
		{"another text", "SELECT 1", fakeRewriter{"SELECT pg_advisory_lock(7)"}, "Unverified discarded "},
		{"another, harmless text", "SELECT 1", fakeRewriter{"SELECT 2"}, "Unverified discarded "},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newFakeServer(t)
				ask(t, srv.openDB(everything), c.text, c.arg)
				var got string
				for _, r := range srv.allReports() {
					got += summary(r)
				}
				if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" || srv.held() != 0 {
					t.Errorf("reports %q, want %q; %d locks held", got, c.want, srv.held())
				}
			})
		})
	}
}

// A statement inside of Raw that never came to its end may have done anything.
func TestUnfinishedStatements(t *testing.T) {
	const lock = "SELECT pg_advisory_lock(1)"
	for _, c := range []struct {
		name string
		use  func(ctx context.Context, dc any)
	}{
		{"rows left open", func(ctx context.Context, dc any) {
			_, _ = dc.(driver.QueryerContext).QueryContext(ctx, lock, nil)
		}},
		{"the driver panics", func(ctx context.Context, dc any) {
			defer func() { _ = recover() }()
			_, _ = dc.(driver.ExecerContext).ExecContext(ctx, lock, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
				srv.lenient = true
				if c.name == "the driver panics" {
					srv.inject(lock, panics("the driver's own"))
				}
				conn := pinned(t, db)
				_ = conn.Raw(func(dc any) error { c.use(t.Context(), dc); return nil })
				_ = conn.Close()
				if got := srv.kinds(); srv.held() != 0 || got != "Unverified" {
					t.Errorf("%d locks held, reports %q", srv.held(), got)
				}
			})
		})
	}
}

// A waiter for a connection gets a fresh one, and the lock is free before it does.
func TestLeakIsFreeBeforeTheNextUse(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
		db.SetMaxOpenConns(1)
		c := pinned(t, db)
		ask(t, c, "SELECT pg_advisory_lock(1)")
		got := make(chan any)
		go func() { got <- ask(t, db, "SELECT pg_backend_pid()") }()
		synctest.Wait() // it waits for the only connection
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if pid := <-got; pid != int64(2) {
			t.Errorf("the waiter is on session %v", pid)
		}
		if srv.held() != 0 {
			t.Error("the lock is held")
		}
	})
}

// What user code does with its goroutine makes no difference.
func TestUserCodePanicsAndGoexits(t *testing.T) {
	take := func(t *testing.T, db *sql.DB, then func()) {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		ask(t, c, "SELECT pg_advisory_lock(1)")
		then()
	}
	raw := func(t *testing.T, db *sql.DB, then func()) {
		take(t, db, func() {
			c, _ := db.Conn(t.Context())
			defer c.Close()
			ask(t, c, "SELECT pg_advisory_lock(2)")
			_ = c.Raw(func(any) error { then(); return nil })
		})
	}
	tx := func(t *testing.T, db *sql.DB, then func()) {
		tx, err := db.Begin()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = tx.Rollback() }()
		ask(t, tx, "SELECT pg_advisory_lock(1)")
		then()
	}
	for _, c := range []struct {
		name    string
		program func(*testing.T, *sql.DB, func())
		then    func()
		want    string
	}{
		{"panic", take, func() { panic("user") }, "Leak"},
		{"Goexit", take, runtime.Goexit, "Leak"},
		{"panic in Raw", raw, func() { panic("user") }, "SessionDied Leak"},
		{"Goexit in Raw", raw, runtime.Goexit, "SessionDied Leak"},
		{"panic in a transaction", tx, func() { panic("user") }, "Leak"},
		{"Goexit in a transaction", tx, runtime.Goexit, "Leak"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, srv *fakeServer, db *sql.DB) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					c.program(t, db, c.then)
				}()
				<-done
				if srv.held() != 0 || db.Stats().InUse != 0 {
					t.Errorf("%d locks held, %d connections in use", srv.held(), db.Stats().InUse)
				}
				if got := srv.kinds(); got != c.want {
					t.Errorf("reports %q, want %q", got, c.want)
				}
			})
		})
	}
}

// A random program: after each return, the sessions that hold locks are pinned ones; without faults and with plain
// statements only, the guard keeps every clean connection and sends nothing of its own.
func TestRandomPrograms(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("SQLLOCK_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	for i := range uint64(200) {
		p := &randomProgram{rnd: rand.New(rand.NewPCG(seed, i)), faulty: i%2 == 0, pins: map[*sql.Conn]int64{}}
		t.Run(strconv.FormatUint(i, 10), func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("SQLLOCK_TEST_SEED=%d:\n%s", seed, strings.Join(p.log, "\n"))
				}
			})
			inBubble(t, []Option{WithPolicy(Policy(i % 4 / 2))}, p.run)
		})
	}
}

func (p *randomProgram) run(t *testing.T, srv *fakeServer, db *sql.DB) {
	p.t, p.srv, p.db = t, srv, db
	db.SetMaxIdleConns(10) // the pool itself must not close any
	for range 60 {
		p.step()
	}
	for c := range p.pins {
		p.giveBack(c)
	}
	clear(srv.faults)
}

type randomProgram struct {
	t      *testing.T
	srv    *fakeServer
	db     *sql.DB
	rnd    *rand.Rand
	faulty bool
	pins   map[*sql.Conn]int64 // and their sessions
	log    []string
}

var (
	randomPlain = []string{
		"SELECT pg_advisory_lock(%d)", "SELECT pg_advisory_lock_shared(%d)", "SELECT pg_try_advisory_lock(%d)",
		"SELECT pg_try_advisory_lock_shared(%d)", "SELECT pg_advisory_unlock(%d)", "SELECT pg_advisory_unlock_shared(%d)",
		"SELECT pg_advisory_unlock(%d)", "SELECT pg_advisory_unlock_shared(%d)", "SELECT pg_advisory_unlock_all()", "SELECT %d",
	}
	randomOther = []string{
		"SELECT pg_try_advisory_lock(%d) OFFSET 1", "SELECT pg_try_advisory_lock(%d) FROM generate_series(1, 3)", "SELECT pg_advisory_unlock(%d); SELECT 1",
		"SELECT pg_advisory_lock(%d), pg_advisory_unlock(2)", "SELECT pg_advisory_unlock(0%d)", "BEGIN", "COMMIT",
	}
)

func (p *randomProgram) step() {
	switch n := p.rnd.IntN(10); {
	case n == 0 && len(p.pins) < 3:
		c, err := p.db.Conn(p.t.Context())
		if err == nil {
			p.pins[c] = ask(p.t, c, "SELECT pg_backend_pid()").(int64)
		}
	case n == 1:
		for c := range p.pins {
			p.giveBack(c)
			return
		}
	default:
		p.send()
	}
}

func (p *randomProgram) send() {
	texts := randomPlain
	if p.faulty {
		texts = slices.Concat(randomPlain, randomOther)
	}
	text := texts[p.rnd.IntN(len(texts))]
	if strings.Contains(text, "%d") {
		text = fmt.Sprintf(text, p.rnd.IntN(3))
	}
	fault := 0
	if p.faulty && p.rnd.IntN(4) == 0 {
		fault = p.rnd.IntN(len(fakeFaults))
		p.srv.inject(text, fakeFaults[fault].fault)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
	defer cancel()
	for c, pid := range p.pins {
		p.log = append(p.log, fmt.Sprintf("%d %s: %s", pid, text, fakeFaults[fault].name))
		_ = drain(c.QueryContext(ctx, text))
		p.check()
		return
	}
	p.log = append(p.log, fmt.Sprintf("pool %s: %s", text, fakeFaults[fault].name))
	_ = drain(p.db.QueryContext(ctx, text))
	p.check()
}

func (p *randomProgram) giveBack(c *sql.Conn) {
	pid := p.pins[c]
	s := p.srv.session(int(pid))
	p.srv.mu.Lock()
	clean := len(s.locks) == 0
	p.srv.mu.Unlock()
	delete(p.pins, c)
	p.log = append(p.log, fmt.Sprintf("%d goes back", pid))
	_ = c.Close()
	p.check()
	p.srv.mu.Lock()
	defer p.srv.mu.Unlock()
	if clean && !p.faulty && s.closed {
		p.t.Errorf("session %d was clean and was discarded", pid)
	}
}

func (p *randomProgram) check() {
	p.srv.mu.Lock()
	defer p.srv.mu.Unlock()
	for _, s := range p.srv.sessions {
		inUse := false
		for _, pid := range p.pins {
			inUse = inUse || int(pid) == s.id
		}
		if len(s.locks) > 0 && !inUse {
			p.t.Errorf("session %d is back in the pool and holds %v", s.id, s.locks)
		}
	}
}

// Many goroutines on one pool, while others look at it: for the race detector, and for the count at the end.
func TestConcurrentUse(t *testing.T) {
	noLeaks(t)
	srv := newFakeServer(t)
	db := srv.openDB(modern)
	db.SetMaxOpenConns(4)
	var users, watchers sync.WaitGroup
	done := make(chan struct{})
	watchers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_, _ = ReadStats(db)
			_, _ = Held(db)
			runtime.Gosched()
		}
	})
	for i := range 8 {
		users.Go(func() {
			for n := range 100 {
				text := fmt.Sprintf(fakeEverything[(i+n)%len(fakeEverything)], n%3)
				way := fakeWays[1:][(i*n)%(len(fakeWays)-1)] // a row of one column is too much to ask of all
				if err := way.send(context.Background(), db, text); err != nil {
					t.Errorf("%s: %s: %v", way.name, text, err)
				}
			}
		})
	}
	users.Wait()
	close(done)
	watchers.Wait()
	if held, err := Held(db); srv.held() != 0 || len(held) != 0 || err != nil {
		t.Errorf("%d locks are held, known are %v, %v", srv.held(), held, err)
	}
}

// fakeEverything never waits for another session.
var fakeEverything = []string{
	"SELECT %d", "SELECT pg_try_advisory_lock(%d)", "SELECT pg_try_advisory_lock_shared(%d)", "SELECT pg_advisory_unlock(%d)",
	"SELECT pg_try_advisory_lock(%d) OFFSET 1", "SELECT pg_try_advisory_xact_lock(%d)", "SELECT pg_try_advisory_lock(%d), pg_advisory_unlock_all()",
}
