package sqllock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A Locker acquires locks on one database. [Postgres] and [MySQL] are Lockers, and so are what their Shared and
// OnConn methods return; make one's own with [NewLock]. A Locker is safe for concurrent use.
//
// Two acquires of one key exclude each other also within one process and on one Locker: nothing is re-entrant.
type Locker interface {
	// Acquire waits until it holds key or until ctx ends. The error that it returns when ctx ends matches ctx's own
	// with errors.Is; the lock is then not held. Other errors: ErrDeadlock, ErrUnsupported, ErrPoolTooSmall, and the
	// driver's own. After an error nothing is held, and Acquire can be called again.
	Acquire(ctx context.Context, key Key) (*Lock, error)
	// TryAcquire never waits for a holder: it returns ErrHeld if there is one, or if another goroutine of this process asks for
	// the key just now. ctx bounds the round trip, and the wait for a connection of the pool. Its other errors are those
	// of Acquire.
	TryAcquire(ctx context.Context, key Key) (*Lock, error)
}

// A Lock is one held key. It is safe for concurrent use; the zero Lock is not usable. It is held until Release, or
// until its session ends, which its context tells.
//
// A Lock that is dropped without Release is released, and reported to log/slog, after the garbage collector has
// found it. Nothing should rely on that.
type Lock struct {
	grant *grant
	ctx   lockContext
	clean runtime.Cleanup
}

// Key returns what is locked.
func (l *Lock) Key() Key { return l.grant.asked }

// Context returns a context with the values of the acquiring context and without its deadline. It is done when the
// lock is lost or released: errors.Is tells ErrLost and ErrReleased in its [context.Cause]. Use it for the work that
// the lock protects. As long as anything refers to the context, or to one derived from it that has not ended, the lock
// is not forgotten.
func (l *Lock) Context() context.Context { return &l.ctx }

// Token returns the fencing token: greater than that of every earlier holder of the key, with [WithToken] on
// PostgreSQL; 0 otherwise.
func (l *Lock) Token() int64 { return l.grant.token }

// Release ends the context and gives the key up. It depends on no context of the caller's and blocks for a bounded
// time. It returns nil if the key was held until now, and ErrLost if it had been lost: the work was then not protected
// to its end. Whatever it returns, the key is not held afterwards: a session that cannot confirm the release is
// ended. Concurrent and later calls return what the first returned. A key that other goroutines of the process share, or
// wait for, can stay with the session without the server being asked: nil then says only that no loss was known.
func (l *Lock) Release() error {
	l.clean.Stop()
	err := l.grant.release()
	runtime.KeepAlive(l)
	return err
}

// lockContext is a part of its Lock, so that a job that only has the context still has the lock.
type lockContext struct{ grant *grant }

func (c *lockContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c *lockContext) Done() <-chan struct{}       { return c.grant.context().Done() }
func (c *lockContext) Err() error                  { return c.grant.context().Err() }
func (c *lockContext) Value(key any) any           { return c.grant.context().Value(key) }

// A grant is the part of a Lock that the holder's session refers to: it never refers to the Lock itself, so that a
// forgotten Lock can be noticed.
type grant struct {
	asked  Key
	key    serverKey
	shared bool
	token  int64
	since  time.Time
	stack  [lockDepth]uintptr
	holder interface{ release(*grant) error }
	once   sync.Once
	err    error // what releasing it returned

	pin     *pin  // whose session holds it
	turn    *turn // guarded by locker.mu
	pending bool  // the requester's own: it gave up while the pin was at it

	mu     sync.Mutex
	ctx    context.Context         // guarded by mu: the acquiring one's, until somebody wants to know the end
	cancel context.CancelCauseFunc // guarded by mu: from then on
	cause  error                   // guarded by mu: lost or released
}

const lockDepth = 6

// serverKey is a key as the server spells it: local exclusion goes by it, because
// Name("x") and the ID that it hashes to are one to PostgreSQL.
type serverKey struct {
	pair bool
	id   int64
	name string
}

func newGrant(ctx context.Context, asked Key, key serverKey, shared bool) *grant {
	g := &grant{asked: asked, key: key, shared: shared, since: time.Now(), ctx: ctx}
	runtime.Callers(3, g.stack[:])
	return g
}

// context ends with the grant. It is made on demand: who holds thousands of locks seldom wants thousands of contexts.
func (g *grant) context() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cancel == nil {
		g.ctx, g.cancel = context.WithCancelCause(context.WithoutCancel(g.ctx))
		if g.cause != nil {
			g.cancel(g.cause)
		}
	}
	return g.ctx
}

// end ends the context; the first cause counts, and is returned.
func (g *grant) end(cause error) error {
	g.mu.Lock()
	if g.cause == nil {
		g.cause = cause
	}
	cause, cancel := g.cause, g.cancel
	g.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
	return cause
}

// callers is where the lock was acquired.
func (g *grant) callers() []uintptr {
	if end := slices.Index(g.stack[:], 0); end >= 0 {
		return g.stack[:end]
	}
	return g.stack[:]
}

// lock makes the handle of a grant that a session holds.
func (g *grant) lock() *Lock {
	l := &Lock{grant: g, ctx: lockContext{g}}
	l.clean = runtime.AddCleanup(l, (*grant).forgotten, g)
	return l
}

func (g *grant) release() error {
	g.once.Do(func() {
		g.end(ErrReleased) // first: the work must stop before others start
		g.err = g.holder.release(g)
		if cause := g.end(ErrReleased); cause != ErrReleased { //nolint:errorlint // the very one, or the loss came first
			g.err = cause
		}
	})
	return g.err
}

// lose tells the holder.
func (g *grant) lose(cause error) { g.end(lostBecause(cause)) }

func lostBecause(cause error) error {
	switch {
	case cause == nil:
		return ErrLost
	case errors.Is(cause, ErrLost):
		return cause
	}
	return fmt.Errorf("%w: %w", ErrLost, cause)
}

// NewLock makes the handle for a [Locker] of one's own: for a test's, or for another kind of lock. It never blocks.
// release is called once, by the first Release, after the context has ended, and its error is what every Release
// returns. lose tells the holder that the lock is lost, for the reason given, which may be nil; every Release then
// returns ErrLost. Calling lose after Release, or again, does nothing.
func NewLock(ctx context.Context, key Key, token int64, release func() error) (l *Lock, lose func(cause error)) {
	g := newGrant(ctx, key, serverKey{}, false)
	g.token, g.holder = token, releaseFunc(release)
	return g.lock(), g.lose
}

type releaseFunc func() error

func (f releaseFunc) release(*grant) error { return f() }

// forgotten: nobody has the Lock any more, and nobody released it.
func (g *grant) forgotten() {
	go func() { // a cleanup must not block
		err := g.release()
		slog.Warn("sqllock: a Lock was dropped without Release: the garbage collector released it. Call Release on every way out",
			"key", g.asked.String(), "at", place(g.callers()), "err", err)
	}()
}

// Run runs job while it holds key, and says whether it ran: if the key is held elsewhere, Run returns false and nil
// without waiting.
//
// The context of the job has the values and the end of ctx, and ends when the lock is lost. If the job returns an
// error, Run returns it, joined with what releasing returned, if anything. A lock that was lost during the job is an
// error (ErrLost) even if the job returned nil. A panic of the job passes through after the lock is released.
func Run(ctx context.Context, l Locker, key Key, job func(ctx context.Context) error) (ran bool, err error) {
	lock, err := l.TryAcquire(ctx, key)
	if errors.Is(err, ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, lock.run(ctx, job)
}

func (l *Lock) run(ctx context.Context, job func(ctx context.Context) error) (err error) {
	jobCtx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	defer func() {
		stop()
		cancel(ErrReleased)
		if e := l.Release(); err == nil {
			err = e
		} else if e != nil {
			err = errors.Join(err, e)
		}
	}()
	return job(jobCtx)
}

// A HeldError is what ErrHeld comes as: errors.Is(err, ErrHeld) is true. It is safe for concurrent use.
type HeldError struct {
	Key Key // what was asked for

	ask func(ctx context.Context) (string, error)
}

// Error names the key.
func (e *HeldError) Error() string {
	return fmt.Sprintf("sqllock: %s is held by another session", e.Key)
}

// Unwrap returns ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }

// Holder asks the server who holds the key now, with one query through the pool, which ctx bounds. It returns the
// session and where it comes from, for people to read, or "" if nobody holds the key any more or the [Locker] cannot tell.
func (e *HeldError) Holder(ctx context.Context) (string, error) {
	if e.ask == nil {
		return "", nil
	}
	return e.ask(ctx)
}
