package sqllock

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"
)

const (
	watchAfter = 5 * time.Millisecond  // without requests: a busy session tells by itself that it lives
	peekEvery  = 25 * time.Millisecond // where the driver can only be asked
)

// loop serves requests until the connection is given back or the session is lost.
func (p *pin) loop() {
	defer p.finish()
	for {
		err := p.turn()
		if cause := p.lossCause(); cause != nil {
			err = cause
		}
		switch {
		case err == errPinEnded: //nolint:errorlint // never wrapped
			p.giveBack()
			return
		case err != nil:
			p.lose(err)
			return
		}
	}
}

// finish: whoever still waits need not.
func (p *pin) finish() {
	p.stopServing()
	for _, r := range p.queue.end() {
		p.reply(r, errPinEnded)
	}
	close(p.done)
}

// stopServing is also called by tell, at the same time where an answer comes just when it is overdue.
func (p *pin) stopServing() { p.stopped.Do(func() { close(p.over) }) }

// turn serves requests, or lets a quiet session rest. Its error ends the pin: errPinEnded gives the connection
// back, any other means that the session is lost. The traffic is the loop's then.
func (p *pin) turn() (err error) {
	var do func() error
	select {
	case err := <-p.broken:
		return err
	case <-p.queue.ready:
		do = p.serve
	case <-p.closingIfEmpty():
		do = p.endIfEmpty
	case <-p.quiet.C: // it runs on while requests are served: setting it for each would wake the scheduler
		do = p.quieten
	}
	select {
	case p.traffic <- struct{}{}:
	case err := <-p.broken:
		return err
	}
	if err = do(); err == nil {
		<-p.traffic
	}
	return err
}

// endIfEmpty: something may have come meanwhile.
func (p *pin) endIfEmpty() error {
	if p.empty() && p.queue.len() == 0 {
		return errPinEnded
	}
	return nil
}

func (p *pin) quieten() error {
	quiet := time.Since(p.sent)
	if quiet < watchAfter {
		p.quiet.Reset(watchAfter - quiet)
		return nil
	}
	defer p.quiet.Reset(watchAfter)
	return p.rest()
}

// rest waits for the next request while the session is watched, until it has to be kept alive or given back.
// A request that comes together with the loss is not answered: its requester notices the loss.
func (p *pin) rest() error {
	over := time.NewTimer(p.restFor())
	defer over.Stop()
	end, stop := p.watch()
	wanted := false
	select {
	case <-p.queue.ready:
		wanted = true
	case <-p.closingIfEmpty():
	case <-over.C:
	case err := <-end:
		return err
	}
	if err := stop(); err != nil {
		return err
	}
	switch {
	case wanted:
		return p.serve()
	case p.empty():
		return errPinEnded
	}
	return p.ping()
}

// restFor counts the keepalive from when the server was last heard of, as the server does.
func (p *pin) restFor() time.Duration {
	if !p.empty() {
		return time.Until(p.heard.Add(p.cfg.keepalive))
	}
	return giveBackAfter
}

// closingIfEmpty is ready when the pin is to be closed and holds nothing.
func (p *pin) closingIfEmpty() <-chan struct{} {
	if !p.empty() {
		return nil
	}
	return p.closing
}

// watch looks out for the end of the session while nothing is sent. stop ends the watch, after which the connection
// can be used again, and returns an error if the session is lost.
func (p *pin) watch() (end <-chan error, stop func() error) {
	if p.empty() || p.native.Await == nil && p.native.Peek == nil {
		return nil, func() error { return nil }
	}
	ctx, cancel := context.WithCancel(p.ctx)
	result := make(chan error, 1)
	go func() {
		if err := p.await(ctx); err != nil {
			result <- err
		}
		close(result)
	}()
	return result, func() error {
		cancel()
		return <-result
	}
}

// await returns nil when ctx ends, and an error when the session does.
func (p *pin) await(ctx context.Context) error {
	if p.native.Await != nil {
		return p.raw(func() error { return p.native.Await(ctx) })
	}
	tick := time.NewTicker(peekEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := p.raw(p.native.Peek); err != nil {
				return err
			}
		}
	}
}

// raw keeps database/sql from using the connection meanwhile, and from judging the error.
func (p *pin) raw(f func() error) (err error) {
	if e := p.conn.Raw(func(any) error { err = f(); return nil }); e != nil {
		return e
	}
	return err
}

func (p *pin) isDead(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || p.lossCause() != nil || p.native.Dead != nil && p.native.Dead()
}

func (p *pin) lossCause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// tell tells every holder that the session is lost, once, before anything is done about it.
func (p *pin) tell(cause error) {
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return
	}
	p.err = lostBecause(cause)
	locks := p.locks
	p.locks = map[*grant]struct{}{}
	for g := range locks {
		p.lost = g.key
	}
	p.mu.Unlock()
	for g := range locks {
		g.lose(p.err)
	}
	for g := range locks {
		p.owner.leave(g)
	}
	p.stopServing()
	p.cancel()
	p.report(locks, cause)
}

// report makes the guard's report of lost locks.
func (p *pin) report(locks map[*grant]struct{}, cause error) {
	if p.guard == nil || len(locks) == 0 {
		return
	}
	r := Report{Kind: SessionDied, Action: Discarded, Err: cause}
	for g := range locks {
		r.Holds = append(r.Holds, p.holdOf(g))
	}
	p.guard.pool.counters.lost.Add(int64(len(locks)))
	p.guard.pool.deliver(r)
}

// lose ends a session that is lost, or that has to be.
func (p *pin) lose(cause error) {
	p.tell(cause)
	p.owner.forget(p)
	p.discard()
	p.owner.remove(p)
	if errors.Is(p.lossCause(), errSilent) {
		go p.kill()
	}
}

// kill: the server may still be at the statement that was given up, and keep the locks until it is done.
func (p *pin) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.timeout)
	defer cancel()
	_ = p.owner.dialect.kill(ctx, &p.session, p.lost) // one key is as good as another
}

// giveBack returns the connection to the pool as it was, once.
func (p *pin) giveBack() {
	if p.ended {
		return
	}
	p.ended = true
	defer p.owner.remove(p)
	defer p.cancel()
	_, err := p.send(p.cfg.timeout, func(ctx context.Context) (bool, error) { return true, p.owner.dialect.restore(ctx, &p.session) })
	if err != nil {
		p.discard()
		return
	}
	p.handBack()
}

// discard ends the session instead of giving the connection back: also one that another pool below the driver lends.
func (p *pin) discard() {
	_ = p.conn.Raw(func(any) error {
		if p.native.Terminate != nil {
			ctx, cancel := context.WithTimeout(context.Background(), DefaultProbeTimeout)
			defer cancel()
			_ = p.native.Terminate(ctx)
		}
		return driver.ErrBadConn
	})
	_ = p.conn.Close()
}
