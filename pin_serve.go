package sqllock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// What the loop does for requests: everything that sends statements about locks on a pin's connection.

// serve answers what has been asked for since it last did, together. A session that has not held a lock yet is given
// back before the last replies: whoever tries in a loop must not fill the pool with resting pins. Its error ends the pin.
func (p *pin) serve() error {
	p.batch = p.queue.take(p.batch)
	if len(p.batch) == 0 { // a requester has served it
		return nil
	}
	fatal := p.doAll(p.batch)
	if fatal == nil && !p.used && p.queue.len() == 0 {
		p.giveBack()
		fatal = errPinEnded
	}
	for _, r := range p.batch {
		p.reply(r, r.err)
	}
	p.crowded.Store(len(p.batch) > 1)
	if len(p.batch) > 1 {
		p.queue.gather(len(p.batch))
	}
	clear(p.batch)
	return fatal
}

// serveAlone is serve for a requester whose context never ends: it need not wait for the loop to wake up. The loop hears
// of an error.
func (p *pin) serveAlone() {
	if err := p.serve(); err != nil {
		p.broken <- err // and keeps the traffic: there is no more
		return
	}
	<-p.traffic
}

// reply undoes what nobody waits for any more.
func (p *pin) reply(r *request, err error) {
	switch {
	case r.end(answered):
		r.reply <- err
	case r.state.Load() == moot:
	case r.op == opRelease || err != nil || !p.queue.undo(r.grant):
		p.owner.leave(r.grant)
	}
}

// doAll sends requests together where it can. Its error, as that of the functions below, says why the session is lost if it is.
func (p *pin) doAll(batch []*request) (fatal error) {
	p.answered = false
	rest := p.dropUnwanted(batch)
	for len(rest) > 0 && fatal == nil {
		if p.opened && len(rest) > 1 && !slices.ContainsFunc(rest, (*request).waits) {
			return p.doTogether(rest)
		}
		fatal = p.do(rest[0])
		rest = rest[1:]
	}
	for _, r := range rest {
		p.fail(r, fatal)
	}
	return fatal
}

func (r *request) waits() bool { return r.op == opWait }

// dropUnwanted returns the requests without those that were given up meanwhile.
func (p *pin) dropUnwanted(batch []*request) []*request {
	if !slices.ContainsFunc(batch, (*request).unwanted) {
		return batch
	}
	wanted := make([]*request, 0, len(batch))
	for _, r := range batch {
		if r.unwanted() {
			r.err = context.Canceled
		} else {
			wanted = append(wanted, r)
		}
	}
	return wanted
}

func (r *request) unwanted() bool { return r.op != opRelease && r.state.Load() != open }

// doTogether makes all calls in one statement. Where that leaves a doubt, the request is dealt with alone.
func (p *pin) doTogether(batch []*request) (fatal error) {
	d := p.owner.dialect
	_, err := p.send(p.cfg.timeout, func(ctx context.Context) (bool, error) { return true, d.batch(ctx, &p.session, batch) })
	late := time.Since(p.sent) > p.cfg.timeout
	if err != nil && !p.isDead(err) {
		_, err = p.send(p.cfg.timeout, func(ctx context.Context) (bool, error) { return true, d.check(ctx, &p.session, batch) })
	}
	if err == nil && late {
		err = p.ping()
	}
	for _, r := range batch {
		if err == nil {
			err = p.conclude(r)
		} else {
			p.fail(r, p.stale(err))
		}
	}
	if err != nil {
		return p.stale(err)
	}
	return nil
}

// conclude makes of what the server said what the requester is told.
func (p *pin) conclude(r *request) (fatal error) {
	switch {
	case r.op == opRelease && !p.has(r.grant):
		r.err = p.lossCause()
	case r.op == opRelease && r.said == saidYes:
		p.drop(r.grant)
	case r.op == opTry && r.said == saidNo:
		r.err = ErrHeld
	case r.op == opTry && r.said == saidYes:
		if r.err = p.hold(r.grant); r.err != nil {
			return p.settle(r.grant, r.err)
		}
	default:
		return p.do(r)
	}
	return nil
}

// fail tells a requester that the session is lost.
func (p *pin) fail(r *request, fatal error) {
	if r.err = fatal; r.op == opRelease {
		p.tell(fatal)
		r.err = p.lossCause()
	}
}

// stale marks an error of a session that had ended unnoticed before it was asked for anything.
func (p *pin) stale(err error) error {
	if p.lossCause() == nil && !p.answered {
		return &staleError{err}
	}
	return err
}

// do deals with one request alone.
func (p *pin) do(r *request) (fatal error) {
	switch {
	case r.op != opRelease:
		r.err, fatal = p.acquire(r)
	case p.has(r.grant):
		r.err, fatal = p.unlock(r.grant)
	default: // what came too late for its requester was released by Close, too
		r.err = p.lossCause()
	}
	if fatal != nil {
		p.fail(r, fatal)
	}
	return fatal
}

func (p *pin) acquire(r *request) (err, fatal error) {
	g := r.grant
	granted, err := p.attempt(r)
	if granted && err == nil {
		if err = p.hold(g); err == nil {
			return nil, nil
		}
	}
	if err != nil || r.op == opWait { // it may be held all the same
		if fatal = p.settle(g, err); fatal != nil {
			return nil, p.stale(fatal)
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
func (p *pin) attempt(r *request) (granted bool, err error) {
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

func (p *pin) wanted(r *request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.state.Load() == open && !p.shut && p.err == nil
}

// settle finds out what the session really holds of a key that nobody has been told is held, and gives that up.
// It returns an error if the session cannot tell.
func (p *pin) settle(g *grant, cause error) error {
	if p.isDead(cause) {
		return cause
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
	p.used, g.token = true, p.token
	p.add(g)
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
	context.AfterFunc(g.context(), func() { t.Stop() })
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
		case err != nil && p.isDead(err):
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
	p.overdue.Reset(p.patience(limit))
	ok, err := f(p.ctx)
	p.overdue.Stop()
	if err == nil {
		p.heard, p.answered = p.sent, true
	}
	return ok, err
}

// patience is how long an answer may take. Holders are told at the latest the keepalive and the time-out after the server was
// last heard of. A process that was stopped meanwhile comes late: it asks once more, and has an eighth of the time-out left.
func (p *pin) patience(limit time.Duration) time.Duration {
	if p.empty() {
		return limit
	}
	left := time.Until(p.heard.Add(p.cfg.keepalive + p.cfg.timeout))
	return min(limit, max(left, p.cfg.timeout/8))
}
