package torture

import (
	"context"
	"database/sql"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sqllock/sqllock/internal/testbed"
)

// counts are of faults or operations, by kind.
type counts map[string]int

func (c counts) add(other counts) {
	for kind, n := range other {
		c[kind] += n
	}
}

func (c counts) kinds() []string { return slices.Sorted(maps.Keys(c)) }

// wait returns early when the run ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// breathe is between two faults.
func breathe(ctx context.Context, r *rand.Rand) {
	wait(ctx, between(r, 50*time.Millisecond, 700*time.Millisecond))
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

// strikeWorkers kills and stops workers until ctx ends. No worker is left stopped.
func strikeWorkers(ctx context.Context, f *fleet, r *rand.Rand) counts {
	done := counts{}
	for breathe(ctx, r); ctx.Err() == nil; breathe(ctx, r) {
		i := r.IntN(workers)
		switch n := r.IntN(10); {
		case n < 5:
			done["kill -9 of a worker"]++
			f.kill(i)
		case n < 8:
			done["worker stopped past the keepalive"]++
			f.freeze(i, func() { wait(ctx, between(r, keepalive, silence)) })
		default:
			done["worker stopped past the silence bound"]++
			f.freeze(i, func() { wait(ctx, between(r, silence, 2*silence)) })
		}
	}
	return done
}

// A siege is what strikes the server and the network.
type siege struct {
	ctx     context.Context // of the attack
	t       testing.TB
	server  *testbed.Server
	outside *sql.DB
	links   []*testbed.Proxy // one for each worker's place
	place   int              // which the fault strikes alone, or everywhere
	*rand.Rand
}

// A fault strikes, leaves everything as it should be, and says what it did.
type fault struct {
	weight int
	strike func(*siege) string
	prompt bool // a holder's time to be told begins with it
}

const prompt = true

var faults = []fault{
	{7, (*siege).killSession, prompt},
	{1, func(s *siege) string { s.server.Restart(s.t); return "server restarted, fast" }, !prompt},
	{1, func(s *siege) string {
		s.server.Stop(s.t, "immediate")
		s.server.Restart(s.t)
		return "server restarted, immediate"
	}, !prompt},
	{4, func(s *siege) string { s.choose(); s.onLinks((*testbed.Proxy).Cut); return "connections cut" }, prompt},
	{3, (*siege).delay, !prompt},
	{2, func(s *siege) string { s.silent(keepalive, silence); return "network silent past the keepalive" }, prompt},
	{3, func(s *siege) string { s.silent(silence, 3*silence); return "network silent past the silence bound" }, prompt},
	{6, (*siege).sever, prompt},
	{2, (*siege).exhaustConnections, !prompt},
	{3, (*siege).hostileTimeouts, !prompt},
}

// MySQL and MariaDB take the memory of locks from the heap.
var postgresFaults = append([]fault{{2, (*siege).fillLockTable, !prompt}}, faults...)

// strikeServer strikes until the attack ends, and returns what it did and when.
func (s *siege) strikeServer() (done counts, when []span) {
	done = counts{}
	for breathe(s.ctx, s.Rand); s.ctx.Err() == nil; breathe(s.ctx, s.Rand) {
		from := time.Now()
		s.place = everywhere
		f := s.pick()
		what := f.strike(s)
		done[what]++
		when = append(when, span{from, time.Now(), what, s.place, f.prompt})
	}
	return done, when
}

func (s *siege) pick() fault {
	faults := faults
	if s.postgres() {
		faults = postgresFaults
	}
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	n := s.IntN(total)
	for _, f := range faults {
		if n -= f.weight; n < 0 {
			return f
		}
	}
	panic("unreachable")
}

func (s *siege) between(low, high time.Duration) time.Duration { return between(s.Rand, low, high) }

func (s *siege) wait(low, high time.Duration) { wait(s.ctx, s.between(low, high)) }

func (s *siege) silent(low, high time.Duration) {
	s.choose()
	s.onLinks(func(p *testbed.Proxy) { p.Blackhole(true) })
	s.wait(low, high)
	s.onLinks(func(p *testbed.Proxy) { p.Blackhole(false) })
}

// sever is the worst loss: the server lets the next one in at once, and the holder can but notice that nobody answers.
func (s *siege) sever() string {
	s.place = s.IntN(workers)
	s.onLinks(func(p *testbed.Proxy) { p.Blackhole(true); p.Sever() })
	s.wait(silence, 3*silence)
	s.onLinks(func(p *testbed.Proxy) { p.Blackhole(false) })
	return "network silent, and the sessions ended"
}

func (s *siege) delay() string {
	d := s.between(time.Millisecond, 400*time.Millisecond)
	s.choose()
	s.onLinks(func(p *testbed.Proxy) { p.Delay(d) })
	s.wait(100*time.Millisecond, time.Second)
	s.onLinks(func(p *testbed.Proxy) { p.Delay(0) })
	return "network delayed"
}

// choose has a fault of the network strike one worker rather than all: the others then want what it holds.
func (s *siege) choose() {
	if s.IntN(3) > 0 {
		s.place = s.IntN(workers)
	}
}

func (s *siege) onLinks(do func(*testbed.Proxy)) {
	for place, link := range s.links {
		if s.place == everywhere || s.place == place {
			do(link)
		}
	}
}
