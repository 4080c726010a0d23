package torture

import (
	"context"
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

// strikeServer disturbs server and network until ctx ends, and leaves both as they should be. It returns also when.
func strikeServer(ctx context.Context, t testing.TB, s *testbed.Server, proxy *testbed.Proxy, r *rand.Rand) (done counts, faults []span) {
	done = counts{}
	for breathe(ctx, r); ctx.Err() == nil; breathe(ctx, r) {
		from, what := time.Now(), ""
		switch n := r.IntN(20); {
		case n < 7:
			what = "session killed"
			if !killSession(t, s) {
				what = "no session killed"
			}
		case n < 8:
			what = "server restarted, fast"
			s.Restart(t)
		case n < 9:
			what = "server restarted, immediate"
			s.Stop(t, "immediate")
			s.Restart(t)
		case n < 13:
			what = "connections cut"
			proxy.Cut()
		case n < 16:
			what = "network delayed"
			proxy.Delay(between(r, time.Millisecond, 400*time.Millisecond))
			wait(ctx, between(r, 100*time.Millisecond, time.Second))
			proxy.Delay(0)
		case n < 18:
			what = "network silent past the keepalive"
			silent(ctx, proxy, between(r, keepalive, silence))
		default:
			what = "network silent past the silence bound"
			silent(ctx, proxy, between(r, silence, 3*silence))
		}
		done[what]++
		faults = append(faults, span{from, time.Now(), what})
	}
	return done, faults
}

func silent(ctx context.Context, proxy *testbed.Proxy, d time.Duration) {
	proxy.Blackhole(true)
	wait(ctx, d)
	proxy.Blackhole(false)
}

// killSession ends one session, of those that hold a lock if there are any. There may be none.
func killSession(t testing.TB, s *testbed.Server) bool {
	db := s.Outside(t)
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if s.Kind == testbed.KindPostgres {
		var killed bool
		err := db.QueryRowContext(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity a LEFT JOIN pg_locks l USING (pid)
			WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND datname = current_database()
			ORDER BY l.locktype = 'advisory' AND l.granted DESC NULLS LAST, random() LIMIT 1`).Scan(&killed)
		return err == nil && killed
	}
	var id string
	err := db.QueryRowContext(ctx, `SELECT t.PROCESSLIST_ID FROM performance_schema.threads t
		LEFT JOIN performance_schema.metadata_locks m ON t.THREAD_ID = m.OWNER_THREAD_ID AND m.OBJECT_TYPE = 'USER LEVEL LOCK'
		WHERE t.TYPE = 'FOREGROUND' AND t.PROCESSLIST_ID <> CONNECTION_ID() AND t.PROCESSLIST_USER IS NOT NULL
		ORDER BY m.OBJECT_TYPE IS NULL, RAND() LIMIT 1`).Scan(&id)
	if err == nil {
		_, err = db.ExecContext(ctx, "KILL "+id)
	}
	return err == nil
}
