package sqllock

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

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
		_ = drainRows(c.QueryContext(ctx, text))
		p.check()
		return
	}
	p.log = append(p.log, fmt.Sprintf("pool %s: %s", text, fakeFaults[fault].name))
	_ = drainRows(p.db.QueryContext(ctx, text))
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
