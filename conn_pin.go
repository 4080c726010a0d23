package sqllock

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqllock/sqllock/internal/native"
)

// A pin is one pinned physical connection and the locks that its session holds. One goroutine, its loop, sends what has
// been asked for while it was busy in one statement, keeps the session alive, and notices when it ends (see
// pin_watch.go). Requests and their replies know nothing of the loop.
type pin struct {
	session
	owner   *locker
	guard   *conn // the guarded connection; nil on a plain pool
	queue   *requestQueue
	closing chan struct{} // closed: to be given back as soon as nothing is held
	closed  sync.Once
	over    chan struct{} // closed: nothing is served any more; if the session is lost, the holders know
	stopped sync.Once     // for over
	done    chan struct{} // closed: the connection is given back or discarded

	ctx     context.Context // of everything that the loop sends: no requester's context can end it half-way
	cancel  context.CancelFunc
	overdue *time.Timer // runs while something is sent

	broken  chan error  // buffered: why the session is lost, from a requester that served itself
	crowded atomic.Bool // requests come together

	// traffic has room for the one who uses the connection: the loop, except while it waits for requests, or a requester
	// that serves itself. It stays taken after the last use.
	traffic  chan struct{}
	batch    []*request
	answered bool      // something, since the request came
	used     bool      // it has held a lock: it is worth keeping for a second
	ended    bool      // the connection is given back
	sent     time.Time // when the latest statement was sent
	heard    time.Time // when the latest statement that was answered had been sent: the server has not counted as silent before that
	quiet    *time.Timer

	mu    sync.Mutex
	locks map[*grant]struct{} // guarded by mu: a shared key's grants are many, and one to the server
	shut  bool                // guarded by mu: the locker is closed, nothing more is acquired
	err   error               // guarded by mu: why the session is lost
	lost  serverKey           // guarded by mu: a key that was held then
}

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
	if err := l.reserveSoon(ctx); err != nil {
		return nil, err
	}
	c, err := l.connect(ctx)
	if err != nil {
		l.unreserve()
		return nil, err
	}
	p := &pin{
		session: session{conn: c, cfg: l.cfg}, owner: l,
		queue: newRequestQueue(), broken: make(chan error, 1), traffic: make(chan struct{}, 1), closing: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}),
		locks: map[*grant]struct{}{}, quiet: time.NewTimer(watchAfter), sent: time.Now(), heard: time.Now(),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.overdue = time.AfterFunc(time.Hour, func() { p.tell(errSilent) })
	p.overdue.Stop()
	p.takeOver()
	if err := l.add(p, shared); err != nil { // from then on others may ask it
		p.handBack()
		l.unreserve()
		return nil, err
	}
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

// handBack leaves the connection to the pool, and to the guard.
func (p *pin) handBack() {
	if p.guard != nil {
		p.guard.pinnedBy(nil)
	}
	_ = p.conn.Close()
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
// that comes later is undone by the loop, which then also ends the grant's turn: it is pending until then.
func (p *pin) ask(ctx context.Context, op requestOp, g *grant) error {
	r := newRequest(op, g)
	alone := ctx.Done() == nil && p.tryTraffic()
	if !p.queue.put(r, alone) {
		return errPinEnded
	}
	if alone {
		p.serveAlone()
	}
	select {
	case err := <-r.reply:
		r.recycle()
		return err
	case <-ctx.Done():
		if r.end(givenUp) {
			g.pending = true
			return ctx.Err()
		}
	case <-p.over:
		if r.end(moot) {
			return errPinEnded
		}
	}
	err := <-r.reply // it came together with the end
	r.recycle()
	return err
}

// tryTraffic: in a crowd everybody does better together.
func (p *pin) tryTraffic() bool {
	if p.crowded.Load() {
		return false
	}
	select {
	case p.traffic <- struct{}{}:
		return true
	default:
		return false
	}
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

// adopt adds one more grant of a key that the session holds for others.
func (p *pin) adopt(g *grant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.shut {
		return false
	}
	p.add(g)
	return true
}

// drop takes a grant away, if it is not lost.
func (p *pin) drop(g *grant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.locks[g]; !ok {
		return false
	}
	p.subtract(g)
	return true
}

// swap hands a key on from one grant to another.
func (p *pin) swap(from, to *grant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.shut {
		return false
	}
	p.subtract(from)
	p.add(to)
	return true
}

func (p *pin) add(g *grant) {
	p.locks[g] = struct{}{}
	g.pin = p
	if p.guard != nil {
		p.guard.pool.counters.acquired.Add(1)
		p.limit(g)
	}
}

func (p *pin) subtract(g *grant) {
	delete(p.locks, g)
	if p.guard != nil {
		p.guard.pool.counters.released.Add(1)
	}
}

// has says whether the session holds a key for a grant.
func (p *pin) has(g *grant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.locks[g]
	return ok
}

// empty says whether the session holds nothing.
func (p *pin) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.locks) == 0
}
