package sqllock

import (
	"context"
	"database/sql/driver"
	"errors"
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
	over     chan struct{} // closed: nothing is served any more; if the session is lost, the holders know
	stopped  sync.Once     // for over
	done     chan struct{} // closed: the connection is given back or discarded

	ctx     context.Context // of everything that the loop sends: no requester's context can end it half-way
	cancel  context.CancelFunc
	overdue *time.Timer // runs while something is sent

	// The loop's own.
	answered bool      // something, since the request came
	used     bool      // it has held a lock: it is worth keeping for a second
	ended    bool      // the connection is given back
	sent     time.Time // when the latest statement was sent
	heard    time.Time // when the latest statement that was answered had been sent: the server has not counted as silent before that
	quiet    *time.Timer

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
		requests: make(chan request), closing: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}),
		held: map[serverKey]pinned{}, locks: map[*grant]struct{}{}, quiet: time.NewTimer(watchAfter), sent: time.Now(), heard: time.Now(),
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
	case p.requests <- r: // the loop is waiting for it
	default:
		select {
		case p.requests <- r:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.over:
			return errPinEnded
		}
	}
	instead := errPinEnded
	select {
	case err := <-g.reply:
		return err
	case <-ctx.Done():
		instead = ctx.Err()
	case <-p.over:
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
	case <-p.over:
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
