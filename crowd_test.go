package sqllock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

// A book is the reference: who holds what. A holder who was told of a loss counts no more.
type book struct {
	t    testing.TB
	mu   sync.Mutex
	held map[sqllock.Key]map[*sqllock.Lock]bool // and whether it is shared
	n    atomic.Int64
}

func newBook(t testing.TB) *book {
	return &book{t: t, held: map[sqllock.Key]map[*sqllock.Lock]bool{}}
}

func (b *book) enter(lock *sqllock.Lock, shared bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n.Add(1)
	if lock.Context().Err() != nil {
		return // lost before anybody could look
	}
	if b.held[lock.Key()] == nil {
		b.held[lock.Key()] = map[*sqllock.Lock]bool{}
	}
	for other, s := range b.held[lock.Key()] {
		if other.Context().Err() == nil && !(shared && s) {
			b.t.Errorf("%v: two holders", lock.Key())
		}
	}
	b.held[lock.Key()][lock] = shared
}

func (b *book) leave(lock *sqllock.Lock) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held[lock.Key()], lock)
}

func seed(t testing.TB) *rand.Rand {
	n := rand.Uint64()
	t.Logf("seed %d", n)
	return rand.New(rand.NewPCG(n, 0))
}

// Goroutines acquire, try, wait for as long as they like, give up, release, share, and lose what they have, at random.
func TestCrowdAgainstModel(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		p.losing = true
		p.SetMaxOpenConns(12)
		l, book := p.locker(t), newBook(t)
		shared := sqllock.Locker(l)
		if pg, ok := l.(*sqllock.Postgres); ok {
			shared = pg.Shared()
		}
		end := time.Now().Add(2 * time.Second)
		var crowd sync.WaitGroup
		for range 24 {
			r := seed(t)
			crowd.Go(func() {
				for time.Now().Before(end) {
					wander(t, r, l, shared, book)
				}
			})
		}
		crowd.Go(func() {
			for r := seed(t); time.Now().Before(end); time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond) {
				endSessions(t, p)
			}
		})
		crowd.Wait()
		p.server.AwaitFree(t, 5*time.Second) // what came too late was given up, while the locker still has its pins
		if book.n.Load() < 100 {
			t.Errorf("%d locks: hardly a crowd", book.n.Load())
		}
	})
}

func wander(t *testing.T, r *rand.Rand, l, shared sqllock.Locker, b *book) {
	key := sqllock.Namespace(t.Name()).Name(fmt.Sprint(r.IntN(6)))
	isShared := r.IntN(3) == 0
	if isShared {
		l = shared
	}
	isShared = isShared && l == shared
	if _, ok := l.(*sqllock.MySQL); ok {
		isShared = false
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(60))*time.Millisecond)
	defer cancel()
	get := l.Acquire
	if r.IntN(2) == 0 {
		get = l.TryAcquire
	}
	if r.IntN(4) == 0 {
		ctx = context.Background()
	}
	lock, err := get(ctx, key)
	if err != nil {
		return // held, given up, lost: nothing is held
	}
	b.enter(lock, isShared)
	time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
	b.leave(lock)
	if err := lock.Release(); err != nil && !errors.Is(err, sqllock.ErrLost) {
		t.Errorf("Release: %v", err)
	}
}

// endSessions ends all sessions of the pool's database, from outside, that hold or want a lock.
func endSessions(t testing.TB, p *lockPool) {
	db := p.server.Outside(t)
	defer db.Close()
	if p.stack.postgres() {
		_, _ = db.Exec("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
		return
	}
	var ids string
	if db.QueryRow("SELECT COALESCE(GROUP_CONCAT(ID), '') FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()").Scan(&ids) != nil {
		return
	}
	for id := range strings.FieldsFuncSeq(ids, func(r rune) bool { return r == ',' }) {
		_, _ = db.Exec("KILL " + id) // it may have ended by itself
	}
}

// The session is ended in the middle of batches: every request gets one answer, and nobody overlaps.
func TestSessionsEndInBatches(t *testing.T) {
	kills := 40
	if os.Getenv("SQLLOCK_TEST_LONG") == "1" {
		kills = 200
	}
	for _, k := range []stack{onPgx, onPQ, onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			p := newLockPool(t, k, k.server(t).NewDatabase(t), true, "")
			p.losing = true
			l, book := p.locker(t), newBook(t)
			var done atomic.Bool
			var lost atomic.Int64
			var crowd sync.WaitGroup
			for i := range 64 {
				key := sqllock.Namespace(t.Name()).Name(fmt.Sprint(i % 48)) // some are contended
				crowd.Go(func() {
					for !done.Load() {
						lock, err := l.Acquire(context.Background(), key)
						if err != nil {
							lost.Add(1)
							continue
						}
						book.enter(lock, false)
						book.leave(lock)
						if err := lock.Release(); err != nil {
							lost.Add(1)
						}
					}
				})
			}
			for range kills {
				before := book.n.Load()
				await(t, 10*time.Second, func() error {
					if n := book.n.Load() - before; n < 100 {
						return fmt.Errorf("%d locks since the session ended: %w", n, context.DeadlineExceeded)
					}
					return nil
				})
				endSessions(t, p)
			}
			done.Store(true)
			crowd.Wait()
			t.Logf("%d locks, %d requests or locks lost, %d kills", book.n.Load(), lost.Load(), kills)
			if lost.Load() == 0 {
				t.Error("nothing was ever lost")
			}
			l.Close()
			p.server.AwaitFree(t, 3*time.Second)
		})
	}
}

// One bad request among many fails alone: everything else is held.
func TestLockTableFullInABatch(t *testing.T) {
	s := testbed.StartPostgres(t, "max_locks_per_transaction=10", "max_connections=10", "max_prepared_transactions=0", "superuser_reserved_connections=1")
	for _, k := range []stack{onPgx, onPQ} {
		t.Run(k.name, func(t *testing.T) {
			outside := s.Outside(t) // nobody can connect when the table is full
			outside.SetMaxIdleConns(1)
			value(t, outside, "SELECT count(*) FROM pg_locks")
			p := newLockPool(t, k, s, true, "")
			l := p.locker(t)
			const n = 6000
			locks, errs := make([]*sqllock.Lock, n), make([]error, n)
			var crowd sync.WaitGroup
			for w := range 100 {
				crowd.Go(func() {
					for i := w; i < n && (i < 100 || errs[i-100] == nil); i += 100 {
						locks[i], errs[i] = l.TryAcquire(t.Context(), sqllock.ID(int64(i)))
					}
				})
			}
			crowd.Wait()
			locks = slices.DeleteFunc(locks, func(l *sqllock.Lock) bool { return l == nil })
			refused := 0
			for _, err := range errs {
				if err == nil {
					continue
				}
				refused++
				if !strings.Contains(err.Error(), "max_locks_per_transaction") || errors.Is(err, sqllock.ErrHeld) || errors.Is(err, sqllock.ErrLost) {
					t.Fatalf("%v", err)
				}
			}
			held := value(t, outside, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
			if held != fmt.Sprint(len(locks)) || refused == 0 {
				t.Errorf("the server shows %s locks, granted were %d, refused %d", held, len(locks), refused)
			}
			for _, lock := range locks {
				if err := lock.Context().Err(); err != nil {
					t.Fatalf("a lock was lost: %v", context.Cause(lock.Context()))
				}
			}
			mustRelease(t, locks...)
		})
	}
}

// A server that takes short statements only is sent several.
func TestSmallPackets(t *testing.T) {
	for _, start := range []func(testing.TB, ...string) *testbed.Server{testbed.StartMySQL, testbed.StartMariaDB} {
		s := start(t, "--max-allowed-packet=4096")
		t.Run(s.Kind, func(t *testing.T) {
			p := newLockPool(t, onMySQL, s, true, "")
			l, book := p.locker(t), newBook(t)
			var crowd sync.WaitGroup
			for i := range 200 {
				crowd.Go(func() {
					for j := range 20 {
						lock, err := l.TryAcquire(t.Context(), sqllock.Namespace("small packets").Name(fmt.Sprint(i, j%2)))
						if err != nil {
							t.Errorf("TryAcquire: %v", err)
							return
						}
						book.enter(lock, false)
						book.leave(lock)
						if err := lock.Release(); err != nil {
							t.Errorf("Release: %v", err)
						}
					}
				})
			}
			crowd.Wait()
			if n := p.Stats().OpenConnections; n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// An event is one call of a process of TestLinearizable.
type event struct {
	Key                int
	Op                 string // "acquire", "try" or "release"
	OK                 bool
	Called, Returned   int64
	Process, Goroutine int
}

// yields: a try does not overtake those of its process who came before.
func (e event) yields(other event) bool {
	return other.Process == e.Process && other.Key == e.Key && other.Goroutine != e.Goroutine &&
		other.Called < e.Returned && e.Called < other.Returned
}

// lockModel is a lock: a try is told whether it is free, an acquire happens when it is, a release when it is not.
var lockModel = porcupine.Model{
	Init: func() any { return false },
	Step: func(state, input, output any) (bool, any) {
		held, e := state.(bool), input.(event)
		switch {
		case e.Op == "release":
			return held, false
		case e.OK:
			return !held, true
		}
		return held, held
	},
}

// What goroutines of several processes see of a few keys could have happened one call after the other.
func TestLinearizable(t *testing.T) {
	for _, k := range []stack{onPgx, onPQ, onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			s := k.server(t).NewDatabase(t)
			keys := map[int][]porcupine.Operation{}
			all := history(t, k, s)
			for _, e := range all {
				if e.Op == "try" && !e.OK && slices.ContainsFunc(all, e.yields) {
					continue
				}
				id := e.Process*historyCrowd + e.Goroutine
				keys[e.Key] = append(keys[e.Key], porcupine.Operation{ClientId: id, Input: e, Call: e.Called, Return: e.Returned})
			}
			for key, ops := range keys {
				if got := porcupine.CheckOperationsTimeout(lockModel, ops, 30*time.Second); got != porcupine.Ok {
					t.Errorf("key %d, %d calls: %v", key, len(ops), got)
				}
			}
			s.AwaitFree(t, 3*time.Second)
		})
	}
}

const historyCrowd = 6

func history(t *testing.T, k stack, s *testbed.Server) (all []event) {
	type line struct{ scan func() ([]byte, bool) }
	var lines []line
	for i := range processes {
		_, in, out := child(t, "history", k, s)
		out.Buffer(nil, 64<<20)
		fmt.Fprintln(in, i)
		lines = append(lines, line{func() ([]byte, bool) { ok := out.Scan(); return out.Bytes(), ok }})
	}
	for _, l := range lines {
		text, ok := l.scan()
		var some []event
		if err := json.Unmarshal(text, &some); err != nil || !ok || len(some) == 0 {
			t.Fatalf("a process says %.200q, %v", text, err)
		}
		all = append(all, some...)
	}
	return all
}

func childHistory(t *testing.T, driver, dsn string) {
	var process int
	if _, err := fmt.Scanln(&process); err != nil {
		t.Fatal(err)
	}
	l := childLocker(t, driver, dsn)
	events := make([][]event, historyCrowd)
	end := time.Now().Add(700 * time.Millisecond)
	var crowd sync.WaitGroup
	for g := range historyCrowd {
		crowd.Go(func() {
			for r := seed(t); time.Now().Before(end) && len(events[g]) < 400; {
				k := r.IntN(3)
				op, get := "acquire", l.Acquire
				if r.IntN(2) == 0 {
					op, get = "try", l.TryAcquire
				}
				e := event{Key: k, Op: op, Process: process, Goroutine: g, Called: time.Now().UnixNano()}
				lock, err := get(context.Background(), sqllock.Namespace(dsn).Name(fmt.Sprint(k)))
				e.OK, e.Returned = err == nil, time.Now().UnixNano()
				events[g] = append(events[g], e)
				if err != nil && !errors.Is(err, sqllock.ErrHeld) {
					t.Errorf("%s: %v", op, err)
				}
				if err == nil {
					e = event{Key: k, Op: "release", OK: true, Process: process, Goroutine: g, Called: time.Now().UnixNano()}
					err = lock.Release()
					e.Returned = time.Now().UnixNano()
					events[g] = append(events[g], e)
					if err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			}
		})
	}
	crowd.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	text, err := json.Marshal(slices.Concat(events...))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(text))
}
