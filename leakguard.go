package sqllock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

// IsValid decides whether the connection may go back to the pool. database/sql calls it at every return, also
// when it hands the connection straight to a waiter, so that a leaked lock is free at once.
//
// A connection on which nothing is held or in doubt costs no I/O here.
func (c *conn) IsValid() bool {
	c.validated = true
	switch {
	case c.ended:
		return false
	case c.isDead():
		c.lost(nil)
		return false
	}
	return c.settle()
}

// ResetSession is the backstop: database/sql calls it when it takes the connection from the pool again. If
// IsValid was not called in between, a wrapper around the guard hides it, and the decision is made now.
func (c *conn) ResetSession(ctx context.Context) error {
	if !c.validated && !c.ended {
		c.pool.hidden.Do(func() { c.pool.deliver(Report{Kind: ValidatorHidden}) })
		c.IsValid()
	}
	c.validated = false
	if c.ended || c.doomed {
		return driver.ErrBadConn
	}
	if c.base.reset == nil {
		return nil
	}
	return c.base.reset.ResetSession(ctx)
}

// Close ends the connection. Where a session that holds locks, or may, is closed without having come back
// through IsValid, it is ended like a leak, and its locks are reported as lost.
func (c *conn) Close() error {
	defer c.pool.remove(c)
	if c.ended {
		return nil
	}
	c.ended = true
	if c.table.clean() {
		return c.base.Conn.Close()
	}
	defer c.lost(nil)
	if c.isDead() || c.pool.cfg.policy == ReportOnly {
		return c.base.Conn.Close()
	}
	closed, err := bounded(c.pool.cfg.probeTimeout, c.endSession, func(context.Context, error) {})
	return errors.Join(closed, err)
}

// isDead asks the driver, without I/O, whether it has given the session up already.
func (c *conn) isDead() bool {
	return c.table.isDead() || c.base.valid != nil && !c.base.valid.IsValid() || c.native.Dead != nil && c.native.Dead()
}

// lost reports the locks of a session that has ended under them, once.
func (c *conn) lost(err error) {
	holds := c.table.takeLost()
	if len(holds) == 0 {
		return
	}
	c.pool.counters.lost.Add(int64(len(holds)))
	c.pool.deliver(Report{Kind: SessionDied, Action: Discarded, Holds: holds, Err: err})
}

// settle makes the decision of a live session's return.
func (c *conn) settle() bool {
	if c.native.InTransaction != nil {
		c.table.setInTransaction(c.native.InTransaction())
	}
	cfg := c.pool.cfg
	if c.table.clean() && (c.doomed || cfg.probe != ProbeAlways) {
		return !c.doomed
	}
	if cfg.policy == ReportOnly {
		c.reportOnly()
		return !c.doomed
	}
	v, err := bounded(cfg.probeTimeout, c.decide, c.tooLate)
	if err != nil {
		v = verdict{report: c.unverified(err)}
	}
	if !v.keep {
		c.ended = true
		c.pool.counters.discarded.Add(1)
		c.table.takeLost()
	}
	if v.report != nil {
		c.pool.counters.leaked.Add(v.leaked)
		c.pool.deliver(*v.report)
	}
	return v.keep
}

// tooLate ends the session of a decision that nobody waits for any more: a driver that ignores its context may
// say at last that all is well.
func (c *conn) tooLate(ctx context.Context, v verdict) {
	if v.keep {
		_ = c.endSession(ctx)
	}
	c.table.takeLost()
}

// bounded runs f, whose context ends a little before the limit, and returns what f returns, or an error if f is
// not back within the limit. A driver that ignores its context is left alone with f; what f
// then returns goes to late, whenever the driver lets it.
func bounded[T any](limit time.Duration, f func(ctx context.Context) T, late func(context.Context, T)) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit*9/10)
	over := time.NewTimer(limit)
	defer over.Stop()
	result, gone := make(chan T), make(chan struct{})
	go func() {
		defer cancel()
		r := f(ctx)
		select {
		case result <- r:
		case <-gone:
			late(ctx, r)
		}
	}()
	select {
	case r := <-result:
		return r, nil
	case <-over.C:
		close(gone)
		var none T
		return none, fmt.Errorf("sqllock: the server did not answer within %v: %w", limit, context.DeadlineExceeded)
	}
}

type verdict struct {
	keep   bool
	report *Report
	leaked int64
}

// decide applies the table of the package documentation. Everything that it sends is bounded by ctx.
func (c *conn) decide(ctx context.Context) verdict {
	if c.doomed || c.table.doubtful(allClasses&^classLocks) {
		return c.discard(ctx, nil)
	}
	if c.table.doubtful(classLocks) || c.pool.cfg.probe == ProbeAlways {
		if err := c.probe(ctx); err != nil {
			return c.discard(ctx, err)
		}
	}
	holds := c.table.list()
	switch {
	case len(holds) == 0:
		return verdict{keep: true}
	case c.pool.cfg.policy == Reset && c.resetLocks(ctx) == nil:
		return verdict{keep: true, leaked: int64(len(holds)), report: leak(holds, ResetKept)}
	}
	_ = c.endSession(ctx)
	return verdict{leaked: int64(len(holds)), report: leak(holds, Discarded)}
}

// discard ends a session that could not be proven clean.
func (c *conn) discard(ctx context.Context, err error) verdict {
	holds, doubt := c.table.list(), c.table.doubtful(allClasses)
	r := c.unverified(err)
	_ = c.endSession(ctx)
	if doubt || err != nil {
		return verdict{report: r}
	}
	return verdict{leaked: int64(len(holds)), report: leak(holds, Discarded)}
}

// probe asks the server what the session holds and brings the hold table in line with the answer.
func (c *conn) probe(ctx context.Context) error {
	if c.pool.cfg.probe == ProbeNever {
		return errors.New("sqllock: WithProbe(ProbeNever) asks no server")
	}
	c.pool.counters.probes.Add(1)
	found, err := c.ask(ctx)
	if err != nil {
		return err
	}
	c.table.adopt(found)
	return nil
}

// reportOnly reports each thing once and changes nothing on the server.
func (c *conn) reportOnly() {
	if c.table.doubtful(allClasses) {
		r := c.unverified(nil)
		r.Action = Kept
		c.pool.deliver(*r)
	}
	if holds := c.table.takeUnreported(); len(holds) > 0 {
		c.pool.counters.leaked.Add(int64(len(holds)))
		c.pool.deliver(*leak(holds, Kept))
	}
}

func leak(holds []Hold, a Action) *Report {
	return &Report{Kind: Leak, Action: a, Holds: holds, Statement: holds[0].Statement, Stack: holds[0].Stack, Time: time.Now()}
}

func (c *conn) unverified(err error) *Report {
	r := c.table.doubtReport()
	r.Kind, r.Action, r.Err = Unverified, Discarded, err
	return r
}

// Unwrap returns the driver's own connection inside of [sql.Conn.Raw], for programs that need its type:
//
//	conn.Raw(func(dc any) error { pgxConn := sqllock.Unwrap(dc).(*stdlib.Conn).Conn(); ... })
//
// What is then done with it is not seen, so that every class of lock becomes unverified: the session is asked
// when the connection comes back, or discarded where it cannot be asked. A connection that is not guarded is
// returned as it is; what is no connection gives nil.
func Unwrap(driverConn any) driver.Conn {
	switch dc := driverConn.(type) {
	case interface{ guarded() *conn }:
		c := dc.guarded()
		c.table.unwrapped(c.pool.cfg.dialect)
		return c.base.Conn
	case interface{ Raw() driver.Conn }: // a wrapper around the guard, such as otelsql
		return Unwrap(dc.Raw())
	case driver.Conn:
		return dc
	}
	return nil
}
