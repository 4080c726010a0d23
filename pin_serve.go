package sqllock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What the loop does with a request. Only these functions send statements about locks on a pin's connection.

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
	g := r.grant
	p.answered = false
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
			if p.lossCause() == nil && !p.answered {
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
		p.heard, p.answered = p.sent, true
	}
	return ok, err
}
