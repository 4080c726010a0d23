package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sqllock/sqllock/internal/native"
)

// session is a connection as the dialects use it.
type session struct {
	conn    *sql.Conn
	cfg     lockerConfig
	native  native.Abilities
	foreign bool   // it is the caller's: its settings are left alone
	opened  bool   // the server was looked at, and the setting below is made
	prior   string // what bounded the silence before
	direct  bool   // no other session can answer: nothing is in between, or a pooler that keeps this one for this client
	token   int64  // of the latest grant, with WithToken
	packet  int    // how long a statement may be
	id      string // the server's name for the session, where it may have to be ended from outside
}

// dialectSQL is the SQL of one kind of server.
type dialectSQL interface {
	configure(lockerConfig) error
	dialect() Dialect
	key(Key) serverKey
	name(serverKey) string
	// try also opens a session that is not yet.
	try(context.Context, *session, *grant) (granted bool, err error)
	// wait waits for at most a slice. An error that only ends the slice is none: then, the lock may be held all the same.
	wait(context.Context, *session, *grant) (granted bool, err error)
	slice() time.Duration
	release(context.Context, *session, *grant) (released bool, err error)
	holds(context.Context, *session, *grant) (held bool, err error)
	ping(context.Context, *session) error
	restore(context.Context, *session) error
	holder(context.Context, *sql.DB, serverKey) (string, error)
	// batch makes the calls of all requests, tries and releases, in few statements, and notes what the server said of
	// each: nothing where that leaves a doubt, or after an error.
	batch(context.Context, *session, []*request) error
	// check notes instead whether the session holds the keys, exactly those of the releases that have not been done.
	check(context.Context, *session, []*request) error
	// kill ends a session whose connection was closed if it holds the key all the same.
	kill(context.Context, *session, serverKey) error
}

// locker is what Postgres and MySQL share: the pins, and who may have one.
type locker struct {
	db      *sql.DB
	dialect dialectSQL
	cfg     lockerConfig
	err     error // of the options

	making chan struct{} // has room for one: who makes the shared pin

	mu     sync.Mutex
	shared *pin                // guarded by mu: the pin of all uncontended locks
	pins   map[*pin]struct{}   // guarded by mu
	turns  map[serverKey]*turn // guarded by mu: of the keys that anybody holds or asks for
	claims map[claim]struct{}  // guarded by mu: what is held on callers' connections
	closed bool                // guarded by mu
}

var errClosed = errors.New("sqllock: the locker is closed")

func newLocker(db *sql.DB, d dialectSQL, opts []LockerOption) *locker {
	l := &locker{db: db, dialect: d, making: make(chan struct{}, 1),
		pins: map[*pin]struct{}{}, turns: map[serverKey]*turn{}, claims: map[claim]struct{}{}}
	if db == nil {
		l.err = errors.New("sqllock: the *sql.DB is nil")
		return l
	}
	if l.cfg, l.err = newLockerConfig(opts); l.err == nil {
		l.err = d.configure(l.cfg)
	}
	return l
}

// view is a Locker: a locker in one mode.
type view struct {
	l      *locker
	shared bool
}

// TryAcquire implements [Locker].
func (v view) TryAcquire(ctx context.Context, key Key) (*Lock, error) {
	return v.acquire(ctx, opTry, key)
}

// Acquire implements [Locker].
func (v view) Acquire(ctx context.Context, key Key) (*Lock, error) {
	return v.acquire(ctx, opWait, key)
}

func (v view) acquire(ctx context.Context, op requestOp, key Key) (*Lock, error) {
	if v.l.err != nil {
		return nil, v.l.err
	}
	if err := ctx.Err(); err != nil {
		return nil, acquireError(ctx, key, err)
	}
	g := newGrant(ctx, key, v.l.dialect.key(key), v.shared)
	if err := v.l.get(ctx, op, g); err != nil {
		return nil, v.l.explain(ctx, g, err)
	}
	return g.lock(), nil
}

// acquireError makes of a reason the error that the caller sees. It matches the context's own also where the driver
// only has a SQLSTATE, or the network's error, for that (lib/pq).
func acquireError(ctx context.Context, key Key, err error) error {
	return fmt.Errorf("sqllock: acquire %s: %w", key, joinContext(ctx, err))
}

func joinContext(ctx context.Context, err error) error {
	c := ctx.Err()
	if end, ok := ctx.Deadline(); ok && c == nil && !time.Now().Before(end) {
		c = context.DeadlineExceeded // a network knows the deadline, too, and may be earlier
	}
	if c == nil || errors.Is(err, c) {
		return err
	}
	return errors.Join(c, err)
}

func (l *locker) explain(ctx context.Context, g *grant, err error) error {
	if errors.Is(err, ErrHeld) {
		key := g.key
		return &HeldError{Key: g.asked, ask: func(ctx context.Context) (string, error) { return l.dialect.holder(ctx, l.db, key) }}
	}
	return acquireError(ctx, g.asked, err)
}

// get waits for the key's turn, and then asks the server if the key does not come with it.
func (l *locker) get(ctx context.Context, op requestOp, g *grant) error {
	g.holder = l
	held, err := l.enter(ctx, op, g)
	if held || err != nil {
		return err
	}
	if err = l.askServer(ctx, op, g); err == nil {
		l.granted(g)
	} else if !g.pending {
		l.leave(g)
	}
	return err
}

// askServer asks the shared pin first. A key that another process holds is waited for on a pin of its own, which then
// keeps it.
func (l *locker) askServer(ctx context.Context, op requestOp, g *grant) error {
	if l.cfg.dedicated {
		return l.onOwn(ctx, op, g)
	}
	if err := l.onShared(ctx, g); op == opTry || !errors.Is(err, ErrHeld) {
		return err
	}
	return l.onOwn(ctx, op, g)
}

// onShared asks the shared pin.
func (l *locker) onShared(ctx context.Context, g *grant) error {
	for left := 0; ; {
		p, err := l.sharedPin(ctx)
		if err != nil {
			return err
		}
		if err = p.ask(ctx, opTry, g); !l.again(ctx, p, err, &left) {
			return err
		}
		l.forget(p)
	}
}

// onOwn asks a new pin, which ends as soon as it holds nothing.
func (l *locker) onOwn(ctx context.Context, op requestOp, g *grant) error {
	for left := 0; ; {
		p, err := newPin(ctx, l, false)
		if err != nil {
			return err
		}
		err = p.ask(ctx, op, g)
		p.close()
		if !l.again(ctx, p, err, &left) {
			return err
		}
	}
}

// again says whether to ask another pin: this one was given back meanwhile, or its session had ended unnoticed since it
// was last used, as all that are idle in the pool may have: left counts them. The connection of this one goes first:
// the pool may need its place.
func (l *locker) again(ctx context.Context, p *pin, err error, left *int) bool {
	if err == nil || errors.Is(err, ErrHeld) {
		return false
	}
	var stale *staleError
	if errors.As(err, &stale) {
		if *left == 0 {
			*left = l.db.Stats().Idle + 3
		}
		if *left--; *left == 1 {
			return false
		}
	} else if err != errPinEnded { //nolint:errorlint // never wrapped
		return false
	}
	p.awaitEnd(ctx.Done())
	return true
}

// sharedPin returns the shared pin; one goroutine makes it.
func (l *locker) sharedPin(ctx context.Context) (*pin, error) {
	if p, err := l.current(); p != nil || err != nil {
		return p, err
	}
	select {
	case l.making <- struct{}{}:
		defer func() { <-l.making }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p, err := l.current(); p != nil || err != nil {
		return p, err
	}
	return newPin(ctx, l, true)
}

func (l *locker) current() (*pin, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	return l.shared, nil
}

func (l *locker) add(p *pin, shared bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	l.pins[p] = struct{}{}
	if shared {
		l.shared = p
	}
	return nil
}

// forget makes sure that a pin that serves no more is not asked again.
func (l *locker) forget(p *pin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared == p {
		l.shared = nil
	}
}

// remove takes a pin away whose connection is gone.
func (l *locker) remove(p *pin) {
	l.forget(p)
	l.mu.Lock()
	delete(l.pins, p)
	l.mu.Unlock()
	l.unreserve()
}

// close releases every lock and gives every connection back.
func (l *locker) close() (err error) {
	l.mu.Lock()
	l.closed = true
	pins := slices.Collect(maps.Keys(l.pins))
	l.mu.Unlock()
	var grants []*grant
	for _, p := range pins {
		grants = append(grants, p.shutDown()...)
		p.close()
	}
	err = together(grants, (*grant).release)
	for _, p := range pins {
		if !p.awaitEnd(nil) {
			err = errors.Join(err, errors.New("sqllock: a lost connection has not been closed: its driver does not heed the end of a context"))
		}
	}
	return err
}

// acquireAll acquires several keys in one order that every process shares, all or none.
func (v view) acquireAll(ctx context.Context, keys []Key) ([]*Lock, error) {
	keys = v.l.sorted(keys)
	locks := make([]*Lock, 0, len(keys))
	for _, k := range keys {
		lock, err := v.Acquire(ctx, k)
		if err != nil {
			return nil, errors.Join(err, releaseAll(locks))
		}
		locks = append(locks, lock)
	}
	return locks, nil
}

// sorted orders keys as the server spells them, each once.
func (l *locker) sorted(keys []Key) []Key {
	name := func(k Key) string { return l.dialect.name(l.dialect.key(k)) }
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(name(a), name(b)) })
	return slices.CompactFunc(keys, func(a, b Key) bool { return name(a) == name(b) })
}

func releaseAll(locks []*Lock) error { return together(locks, (*Lock).Release) }

// together does something with all of them at once, so that it goes to the server together.
func together[T any](all []T, f func(T) error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() { errs[i] = f(one) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
