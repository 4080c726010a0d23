package sqllock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sqllock/sqllock/internal/native"
)

// A pin is one pinned physical connection and the locks that its session holds. One goroutine, its loop, owns the
// connection's traffic: it sends one request at a time, keeps the session alive, and notices when it ends (see
// pin_watch.go). Requests and their replies know nothing of the loop.
type pin struct {
	session
	owner    *locker
	guard    *conn // the guarded connection; nil on a plain pool
	requests chan request
	closing  chan struct{} // closed: to be given back as soon as nothing is held
	closed   sync.Once
	lost     chan struct{} // closed: the session is lost, and the holders know
	done     chan struct{} // closed: the connection is given back or discarded

	ctx     context.Context // of everything that the loop sends: no requester's context can end it half-way
	cancel  context.CancelFunc
	overdue *time.Timer // runs while something is sent

	// The loop's own.
	used  bool      // it has held a lock: it is worth keeping for a second
	ended bool      // the connection is given back
	sent  time.Time // when the latest statement was sent
	heard time.Time // when the latest statement that was answered had been sent: the server has not counted as silent before that
	quiet *time.Timer

	mu    sync.Mutex
	held  map[serverKey]pinned // guarded by mu; only the loop writes
	locks map[*grant]struct{}  // guarded by mu
	shut  bool                 // guarded by mu: the locker is closed, nothing more is acquired
	err   error                // guarded by mu: why the session is lost
}

// pinned is what a session holds of one key: one exclusive grant, or any number of shared ones.
type pinned struct {
	shared bool
	n      int
}

// A request is one thing that the loop is asked to do with a grant. A grant can be asked for several times, of several
// pins: number tells them apart.
type request struct {
	op     requestOp
	grant  *grant
	number int64
}

type requestOp uint8

const (
	opTry requestOp = iota
	opWait
	opRelease
)

// newRequest is called by the requester, whose one request of a grant it is from now on.
func newRequest(op requestOp, g *grant) request {
	return request{op: op, grant: g, number: g.open.Add(1)}
}

// close decides between the requester, who gives up, and the loop, which answers: only the first to call it is told true.
func (r request) close() bool { return r.grant.open.CompareAndSwap(r.number, r.number+1) }

// wanted says whether anybody still waits for the answer.
func (r request) wanted() bool { return r.grant.open.Load() == r.number }

const giveBackAfter = time.Second // without locks

// staleError says that the session had ended before the request came: another one may be asked.
type staleError struct{ error }

func (e *staleError) Unwrap() error { return e.error }

var (
	errPinEnded = errors.New("sqllock: the pinned connection was given back")
	errSilent   = errors.New("sqllock: the server does not answer")
)

// newPin takes a connection of the pool and starts the loop.
func newPin(ctx context.Context, l *locker, shared bool) (*pin, error) {
	if err := l.reserve(); err != nil {
		return nil, err
	}
	c, err := l.connect(ctx)
	if err != nil {
		l.unreserve()
		return nil, err
	}
	p := &pin{
		session: session{conn: c, cfg: l.cfg}, owner: l,
		requests: make(chan request), closing: make(chan struct{}), lost: make(chan struct{}), done: make(chan struct{}),
		held: map[serverKey]pinned{}, locks: map[*grant]struct{}{}, quiet: time.NewTimer(watchAfter), heard: time.Now(),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.overdue = time.AfterFunc(time.Hour, func() { p.tell(errSilent) })
	p.overdue.Stop()
	if err := l.add(p, shared); err != nil {
		_ = c.Close()
		l.unreserve()
		return nil, err
	}
	p.takeOver()
	go p.loop()
	return p, nil
}

// takeOver finds out whose connection it is. The guard leaves it to the pin from now on.
func (p *pin) takeOver() {
	_ = p.conn.Raw(func(dc any) error {
		if p.guard, p.native = behind(dc); p.guard != nil {
			p.guard.pinnedBy(p.list)
		}
		return nil
	})
}

// behind returns what is behind a connection of database/sql's: the guard, if there is one, and what the driver can do.
func behind(dc any) (*conn, native.Abilities) {
	switch dc := dc.(type) {
	case interface{ guarded() *conn }:
		return dc.guarded(), dc.guarded().native
	case driver.Conn:
		return nil, native.Of(dc)
	}
	return nil, native.Abilities{}
}

// list is what Held shows of a guarded connection while it is pinned.
func (p *pin) list() []Hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	holds := make([]Hold, 0, len(p.locks))
	for g := range p.locks {
		holds = append(holds, p.holdOf(g))
	}
	return holds
}

func (p *pin) holdOf(g *grant) Hold {
	kind := kindAdvisory
	if p.owner.dialect.dialect() == DialectMySQL {
		kind = kindNamed
	}
	return Hold{
		Kind: kind.String(), Key: p.owner.dialect.name(g.key), Shared: g.shared, Count: 1,
		Since: g.since, Statement: "sqllock's locker", Stack: g.callers(), Conn: p.guard.table.id,
	}
}

// ask sends a request to the loop and waits for its reply, for the end of ctx, or for the end of the pin. A grant
// that comes later is undone by the loop. What the session holds already is answered here, so that asking for it
// again and again does not keep the loop from watching.
func (p *pin) ask(ctx context.Context, op requestOp, g *grant) error {
	if op != opRelease && p.excludes(g) {
		return ErrHeld
	}
	r := newRequest(op, g)
	select {
	case p.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.lost:
		return errPinEnded
	case <-p.done:
		return errPinEnded
	}
	instead := errPinEnded
	select {
	case err := <-g.reply:
		return err
	case <-ctx.Done():
		instead = ctx.Err()
	case <-p.lost:
	case <-p.done:
	}
	if !r.close() { // the answer came together with the end
		return <-g.reply
	}
	return instead
}

// excludes says whether the session holds the key in a way that the server would not see as a conflict.
func (p *pin) excludes(g *grant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, ok := p.held[g.key]
	return ok && !(h.shared && g.shared) && p.err == nil
}

// release is what a grant's holder does. It waits for as long as the session takes to answer, which is bounded.
func (p *pin) release(g *grant) error {
	err := p.ask(context.Background(), opRelease, g)
	if err == errPinEnded { //nolint:errorlint // never wrapped
		return p.lossCause()
	}
	return err
}

// close lets the loop give the connection back as soon as nothing is held.
func (p *pin) close() { p.closed.Do(func() { close(p.closing) }) }

// shutDown lets nothing more be acquired, and returns what is held.
func (p *pin) shutDown() []*grant {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = true
	grants := make([]*grant, 0, len(p.locks))
	for g := range p.locks {
		grants = append(grants, g)
	}
	return grants
}

// awaitEnd waits until the connection is given back or discarded, or until stop is closed. A driver that hangs is not
// waited for.
func (p *pin) awaitEnd(stop <-chan struct{}) bool {
	select {
	case <-p.done:
		return true
	case <-stop:
		return false
	case <-p.lost:
	}
	t := time.NewTimer(endPatience)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-stop:
	case <-t.C:
	}
	return false
}

const endPatience = 2 * time.Second

// serve answers requests: one, or, on a session that has not held a lock yet, all that have come, and then gives the
// connection back before the last reply: whoever tries in a loop must not fill the pool with resting pins.
// Its error ends the pin.
func (p *pin) serve(r request) error {
	for {
		err, fatal := p.do(r)
		var next request
		if fatal == nil && !p.used {
			select {
			case next = <-p.requests:
			default:
				p.giveBack()
				fatal = errPinEnded
			}
		}
		if r.close() {
			r.grant.reply <- err
		} else if r.op != opRelease && err == nil { // nobody waits for it any more
			_, fatal = p.unlock(r.grant)
		}
		if fatal != nil || next.grant == nil {
			return fatal
		}
		r = next
	}
}

// do returns what to tell the requester, and why the session is lost if it is.
func (p *pin) do(r request) (err, fatal error) {
	if r.op != opRelease {
		return p.acquire(r)
	}
	if err, fatal = p.unlock(r.grant); fatal != nil {
		p.tell(fatal)
		err = p.lossCause()
	}
	return err, fatal
}

func (p *pin) acquire(r request) (err, fatal error) {
	g, start := r.grant, time.Now()
	if p.excludes(g) {
		return ErrHeld, nil
	}
	granted, err := p.attempt(r)
	if granted && err == nil {
		if err = p.hold(g); err == nil {
			return nil, nil
		}
	}
	if err != nil || r.op == opWait { // it may be held all the same
		if fatal = p.settle(g, err); fatal != nil {
			if p.lossCause() == nil && p.heard.Before(start) {
				fatal = &staleError{fatal}
			}
			return fatal, fatal
		}
	}
	switch {
	case err != nil:
		return err, nil
	case r.op == opWait:
		return errClosed, nil
	}
	return ErrHeld, nil
}

// attempt tries once, or waits in slices until the lock is granted or nobody waits for it any more.
func (p *pin) attempt(r request) (granted bool, err error) {
	d, g := p.owner.dialect, r.grant
	granted, err = p.send(p.cfg.timeout, func(ctx context.Context) (bool, error) { return d.try(ctx, &p.session, g) })
	for r.op == opWait && err == nil && !granted && p.wanted(r) {
		granted, err = p.send(p.cfg.timeout+d.slice(), func(ctx context.Context) (bool, error) { return d.wait(ctx, &p.session, g) })
	}
	if granted && err == nil && time.Since(p.sent) > p.cfg.timeout {
		err = p.ping() // an answer that old does not prove that the session still lives
	}
	return granted, err
}

func (p *pin) wanted(r request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.wanted() && !p.shut && p.err == nil
}

// settle finds out what the session really holds of a key that nobody has been told is held, and gives that up.
// It returns an error if the session cannot tell.
func (p *pin) settle(g *grant, cause error) error {
	if p.isDead(cause) {
		return cause
	}
	if p.held[g.key].n > 0 { // the server shows one row, however often it is held
		return errors.Join(cause, errors.New("sqllock: a shared lock may be held once more than is known"))
	}
	held, err := p.holds(g)
	if err != nil || !held {
		return joinIf(err, cause)
	}
	if ok, err := p.unlockOnce(g); err != nil || !ok {
		return errors.Join(cause, err, errors.New("sqllock: what was granted could not be given up"))
	}
	return nil
}

// joinIf joins the cause to an error, if there is one.
func joinIf(err, cause error) error {
	if err == nil {
		return nil
	}
	return errors.Join(cause, err)
}

func (p *pin) hold(g *grant) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.err != nil:
		return p.err
	case p.shut:
		return errClosed
	}
	p.held[g.key] = pinned{shared: g.shared, n: p.held[g.key].n + 1}
	p.locks[g] = struct{}{}
	p.used, g.holder, g.token = true, p, p.token
	if p.guard != nil {
		p.guard.pool.counters.acquired.Add(1)
		p.limit(g)
	}
	return nil
}

// limit reports a lock that is held for longer than WithHoldLimit allows.
func (p *pin) limit(g *grant) {
	d := p.guard.pool.cfg.holdLimit
	if d <= 0 {
		return
	}
	t := time.AfterFunc(d, func() {
		h := p.holdOf(g)
		p.guard.pool.deliver(Report{Kind: HeldTooLong, Statement: h.Statement, Stack: h.Stack, Holds: []Hold{h}})
	})
	context.AfterFunc(g.inner, func() { t.Stop() })
}

func (p *pin) drop(g *grant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.locks, g)
	if h := p.held[g.key]; h.n > 1 {
		p.held[g.key] = pinned{shared: h.shared, n: h.n - 1}
	} else {
		delete(p.held, g.key)
	}
	if p.guard != nil {
		p.guard.pool.counters.released.Add(1)
	}
}

// unlock releases one grant and checks what the server says. On doubt the key is looked up; a session that cannot
// be asked, or that does not let go of the key, is lost on purpose.
func (p *pin) unlock(g *grant) (err, fatal error) {
	for range 2 {
		ok, err := p.unlockOnce(g)
		switch {
		case err == nil && ok:
			p.drop(g)
			return nil, nil
		case err != nil && (p.isDead(err) || p.held[g.key].n > 1):
			return nil, err
		}
		held, again := p.holds(g)
		switch {
		case again != nil:
			return nil, errors.Join(err, again)
		case !held && err != nil: // it failed after it had done its work
			p.drop(g)
			return nil, nil
		case !held:
			p.drop(g)
			return fmt.Errorf("%w: the session did not hold %s any more", ErrLost, p.owner.dialect.name(g.key)), nil
		}
	}
	return nil, errors.New("sqllock: the server does not release " + p.owner.dialect.name(g.key))
}

func (p *pin) unlockOnce(g *grant) (ok bool, err error) {
	return p.send(p.cfg.timeout, func(ctx context.Context) (bool, error) { return p.owner.dialect.release(ctx, &p.session, g) })
}

func (p *pin) holds(g *grant) (held bool, err error) {
	return p.send(p.cfg.timeout, func(ctx context.Context) (bool, error) { return p.owner.dialect.holds(ctx, &p.session, g) })
}

func (p *pin) ping() error {
	_, err := p.send(p.cfg.timeout, func(ctx context.Context) (bool, error) { return true, p.owner.dialect.ping(ctx, &p.session) })
	return err
}

// send bounds what f sends. If no answer comes in time, the holders are told first, and then the statement's context
// ends: whether the driver heeds that or not.
func (p *pin) send(limit time.Duration, f func(context.Context) (bool, error)) (bool, error) {
	p.sent = time.Now()
	p.overdue.Reset(limit)
	ok, err := f(p.ctx)
	p.overdue.Stop()
	if err == nil {
		p.heard = p.sent
	}
	return ok, err
}
