package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"
)

// onConn is a Locker on a session that the caller keeps using. There is no pin: each call sends its statements on
// the caller's connection, which database/sql gives to one call at a time.
type onConn struct {
	l *locker

	mu sync.Mutex // of the session
	s  session
}

// A claim keeps a session from acquiring a key twice: the server would grant it again.
type claim struct {
	conn *sql.Conn
	key  serverKey
}

const pollEvery = 250 * time.Millisecond

func newOnConn(l *locker, conn *sql.Conn) *onConn {
	return &onConn{l: l, s: session{conn: conn, cfg: l.cfg, foreign: true}}
}

// TryAcquire implements [Locker].
func (o *onConn) TryAcquire(ctx context.Context, key Key) (*Lock, error) {
	if o.l.err != nil {
		return nil, o.l.err
	}
	if err := ctx.Err(); err != nil {
		return nil, acquireError(ctx, key, err)
	}
	g := newGrant(ctx, key, o.l.dialect.key(key), false)
	g.holder = o
	if err := o.claimed(ctx, g); err != nil {
		return nil, o.l.explain(ctx, g, err)
	}
	return g.lock(), nil
}

// Acquire implements [Locker].
func (o *onConn) Acquire(ctx context.Context, key Key) (*Lock, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		lock, err := o.TryAcquire(ctx, key)
		if !errors.Is(err, ErrHeld) {
			return lock, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, acquireError(ctx, key, ctx.Err())
		}
	}
}

// claimed tries what nobody else has on this connection.
func (o *onConn) claimed(ctx context.Context, g *grant) error {
	if !o.claim(g) {
		return ErrHeld
	}
	granted, err := o.try(ctx, g)
	if granted && err == nil {
		return nil
	}
	defer o.unclaim(g)
	if err == nil {
		return ErrHeld
	}
	return joinIf(err, o.settle(g))
}

func (o *onConn) claim(g *grant) bool {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	c := claim{o.s.conn, g.key}
	_, taken := o.l.claims[c]
	if !taken {
		o.l.claims[c] = struct{}{}
	}
	return !taken
}

func (o *onConn) unclaim(g *grant) {
	o.l.mu.Lock()
	delete(o.l.claims, claim{o.s.conn, g.key})
	o.l.mu.Unlock()
}

// try does not let the caller's context end its statement: drivers end the connection then.
func (o *onConn) try(ctx context.Context, g *grant) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.s.cfg.timeout)
	defer cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.s.opened {
		_ = o.s.conn.Raw(func(dc any) error {
			_, o.s.native = behind(dc)
			return nil
		})
	}
	ok, err := o.l.dialect.try(ctx, &o.s, g)
	g.token = o.s.token
	return ok, err
}

// settle gives up what a failed statement may have been granted, or the session.
func (o *onConn) settle(g *grant) error {
	ctx, cancel := context.WithTimeout(context.Background(), o.s.cfg.timeout)
	defer cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	held, err := o.l.dialect.holds(ctx, &o.s, g)
	if err == nil && held {
		_, err = o.l.dialect.release(ctx, &o.s, g)
	}
	if err != nil {
		o.discard(g)
	}
	return err
}

func (o *onConn) release(g *grant) error {
	defer o.unclaim(g)
	ctx, cancel := context.WithTimeout(context.Background(), o.s.cfg.timeout)
	defer cancel()
	ok, err := o.l.dialect.release(ctx, &o.s, g)
	switch {
	case err == nil && ok:
		return nil
	case err == nil:
		return fmt.Errorf("%w: the session did not hold %s any more", ErrLost, o.l.dialect.name(g.key))
	case errors.Is(err, sql.ErrConnDone):
		return fmt.Errorf("%w: the connection was closed before Release: unless its pool is guarded, the key stays locked until the pool closes it", ErrLost)
	}
	lost := errors.Is(err, driver.ErrBadConn) || o.s.native.Dead != nil && o.s.native.Dead()
	o.discard(g)
	if lost {
		return lostBecause(err)
	}
	return fmt.Errorf("sqllock: release %s: the session had to be ended: %w", g.asked, err)
}

// discard ends the session: it may hold what nobody releases. The connection is closed below database/sql, which
// would wait for the end of a transaction that is open on it; it finds out when the connection is next used.
func (o *onConn) discard(g *grant) {
	ctx, cancel := context.WithTimeout(context.Background(), o.s.cfg.timeout)
	defer cancel()
	_ = o.s.conn.Raw(func(dc any) error {
		if o.s.native.Terminate != nil {
			_ = o.s.native.Terminate(ctx)
		}
		if own, ok := dc.(driver.Conn); ok {
			_ = own.Close()
		}
		return nil
	})
	_ = o.l.dialect.kill(ctx, &o.s, g.key)
}
