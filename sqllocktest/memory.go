package sqllocktest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sqllock/sqllock"
)

// A Memory is a [sqllock.Locker] without a database, for tests of code that takes one: its locks behave as those of
// [sqllock.Postgres] and [sqllock.MySQL] do, and a test can make them lost. Everything that is to exclude each other uses one
// Memory, also what stands for several processes. It is safe for concurrent use; make one with [NewMemory].
//
// Every lock has a token, as with [sqllock.WithToken]. Waiters are served in the order in which they came.
type Memory struct {
	mu    sync.Mutex
	keys  map[sqllock.Key]*entry // guarded by mu: what is held
	token int64                  // guarded by mu
}

// entry is a key that is held: by one exclusive holder, or by shared ones.
type entry struct {
	holders []*holder
	waiters []*waiter
}

type holder struct {
	shared bool
	lose   func(cause error)
}

type waiter struct {
	ctx    context.Context
	shared bool
	got    chan *sqllock.Lock // has room for one
}

// NewMemory returns a Memory in which nothing is held.
func NewMemory() *Memory { return &Memory{keys: map[sqllock.Key]*entry{}} }

// TryAcquire implements [sqllock.Locker].
func (m *Memory) TryAcquire(ctx context.Context, key sqllock.Key) (*sqllock.Lock, error) {
	return m.try(ctx, key, false)
}

// Acquire implements [sqllock.Locker].
func (m *Memory) Acquire(ctx context.Context, key sqllock.Key) (*sqllock.Lock, error) {
	return m.acquire(ctx, key, false)
}

// Shared returns a Locker of m's shared locks: any number of them go together, and exclude exclusive ones.
func (m *Memory) Shared() sqllock.Locker { return shared{m} }

type shared struct{ m *Memory }

func (s shared) TryAcquire(ctx context.Context, key sqllock.Key) (*sqllock.Lock, error) {
	return s.m.try(ctx, key, true)
}

func (s shared) Acquire(ctx context.Context, key sqllock.Key) (*sqllock.Lock, error) {
	return s.m.acquire(ctx, key, true)
}

// Lose makes whoever holds key lose it, as the end of a database session does, and says whether anybody held it. When it returns,
// the holders' contexts have ended and the next waiter has the key. cause is what their contexts' cause wraps; it may be nil.
func (m *Memory) Lose(key sqllock.Key, cause error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.keys[key]
	if e == nil {
		return false
	}
	for _, h := range e.holders {
		h.lose(cause)
	}
	e.holders = nil
	m.serve(key, e)
	return true
}

// Held returns the keys that are held now, in no particular order.
func (m *Memory) Held() []sqllock.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := make([]sqllock.Key, 0, len(m.keys))
	for k := range m.keys {
		keys = append(keys, k)
	}
	return keys
}

func (m *Memory) try(ctx context.Context, key sqllock.Key, shared bool) (*sqllock.Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, acquireError(key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.keys[key]; e != nil && !e.admits(shared) {
		return nil, &sqllock.HeldError{Key: key}
	}
	return m.grant(ctx, key, shared), nil
}

func (m *Memory) acquire(ctx context.Context, key sqllock.Key, shared bool) (*sqllock.Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, acquireError(key, err)
	}
	w := &waiter{ctx: ctx, shared: shared, got: make(chan *sqllock.Lock, 1)}
	m.enqueue(key, w)
	select {
	case lock := <-w.got:
		return lock, nil
	case <-ctx.Done():
		m.leave(key, w)
		return nil, acquireError(key, ctx.Err())
	}
}

func acquireError(key sqllock.Key, err error) error {
	return fmt.Errorf("sqllocktest: acquire %s: %w", key, err)
}

func (m *Memory) enqueue(key sqllock.Key, w *waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.keys[key]
	if e == nil {
		e = &entry{}
		m.keys[key] = e
	}
	e.waiters = append(e.waiters, w)
	m.serve(key, e)
}

// leave takes back what came together with the end of the waiter's context.
func (m *Memory) leave(key sqllock.Key, w *waiter) {
	m.mu.Lock()
	if e := m.keys[key]; e != nil {
		e.waiters = slices.DeleteFunc(e.waiters, func(other *waiter) bool { return other == w })
		m.serve(key, e)
	}
	m.mu.Unlock()
	select {
	case lock := <-w.got:
		_ = lock.Release() // it cannot fail: nobody else has it
	default:
	}
}

// serve grants to the first waiters what may be granted. Whoever calls it has m.mu.
func (m *Memory) serve(key sqllock.Key, e *entry) {
	for len(e.waiters) > 0 && e.admits(e.waiters[0].shared) {
		w := e.waiters[0]
		e.waiters = e.waiters[1:]
		w.got <- m.grant(w.ctx, key, w.shared)
	}
	if len(e.holders) == 0 {
		delete(m.keys, key)
	}
}

func (e *entry) admits(shared bool) bool {
	return len(e.holders) == 0 || shared && e.holders[0].shared
}

// grant makes a lock. Whoever calls it has m.mu.
func (m *Memory) grant(ctx context.Context, key sqllock.Key, shared bool) *sqllock.Lock {
	e := m.keys[key]
	if e == nil {
		e = &entry{}
		m.keys[key] = e
	}
	m.token++
	h := &holder{shared: shared}
	e.holders = append(e.holders, h)
	var lock *sqllock.Lock
	lock, h.lose = sqllock.NewLock(ctx, key, m.token, func() error { m.release(key, e, h); return nil })
	return lock
}

// release gives up what h holds, if it has not been lost.
func (m *Memory) release(key sqllock.Key, e *entry, h *holder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(e.holders, h)
	if i < 0 {
		return
	}
	e.holders = slices.Delete(e.holders, i, i+1)
	m.serve(key, e)
}
