package sqllock

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/sqllock/sqllock/internal/native"
)

// What every guarded connection promises. QueryerContext, ExecerContext and NamedValueChecker are promised
// only where the driver's own connection has them, because database/sql acts on their presence: see presented.
var (
	_ driver.Conn               = (*conn)(nil)
	_ driver.ConnPrepareContext = (*conn)(nil)
	_ driver.ConnBeginTx        = (*conn)(nil)
	_ driver.Pinger             = (*conn)(nil)
	_ driver.SessionResetter    = (*conn)(nil)
	_ driver.Validator          = (*conn)(nil)
	_ driver.QueryerContext     = querying{}
	_ driver.ExecerContext      = execing{}
	_ driver.NamedValueChecker  = checking{}
)

// conn is one guarded physical connection. Like every driver.Conn it is used by one goroutine at a time;
// only its hold table is also read by others.
type conn struct {
	base   base
	pool   *pool
	native native.Abilities
	table  holdTable
	lane   lane // the observed lane, made when it is first needed
	tx     guardedTx

	pinned    bool // a locker's pin has it, and knows what it holds
	watched   bool // every text has to be recognised: the session has marks, or there are lock functions
	validated bool // IsValid ran since the connection was last taken from the pool
	doomed    bool // must not go back to the pool, whatever it holds
	ended     bool // the guard has ended the session
}

func newConn(c driver.Conn, p *pool) *conn {
	g := &conn{base: newBase(c), pool: p, native: native.Of(c), watched: len(p.cfg.functions) > 0}
	g.table.pool, g.table.id = p, p.add(g)
	return g
}

type querying struct{ c *conn }
type execing struct{ c *conn }
type checking struct{ c *conn }

// presented returns c with exactly those optional interfaces of the driver's own connection
// on whose presence database/sql acts.
func (c *conn) presented() driver.Conn {
	q, e, n := querying{c}, execing{c}, checking{c}
	switch hasQ, hasE, hasN := c.base.queryer != nil, c.base.execer != nil, c.base.checker != nil; {
	case hasQ && hasE && hasN:
		return struct {
			*conn
			querying
			execing
			checking
		}{c, q, e, n}
	case hasQ && hasE:
		return struct {
			*conn
			querying
			execing
		}{c, q, e}
	case hasQ && hasN:
		return struct {
			*conn
			querying
			checking
		}{c, q, n}
	case hasE && hasN:
		return struct {
			*conn
			execing
			checking
		}{c, e, n}
	case hasQ:
		return struct {
			*conn
			querying
		}{c, q}
	case hasE:
		return struct {
			*conn
			execing
		}{c, e}
	case hasN:
		return struct {
			*conn
			checking
		}{c, n}
	}
	return c
}

// guarded finds the connection behind whatever presented returned.
func (c *conn) guarded() *conn { return c }

// direct says whether a call may take the direct lane: nothing in it concerns session locks.
func (c *conn) direct(query string) bool {
	return c.pinned || !c.watched && ordinary(c.pool.cfg.dialect, query)
}

func (q querying) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c := q.c
	if !c.direct(query) {
		if s, ok := c.recognise(query); ok {
			return c.lane.query(c, ctx, s, query, args)
		}
	}
	rows, err := c.base.queryer.QueryContext(ctx, query, args)
	if err != nil {
		c.noteErr(err)
	}
	return rows, err
}

func (e execing) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c := e.c
	if !c.direct(query) {
		if s, ok := c.recognise(query); ok {
			return c.lane.exec(c, ctx, s, query, args)
		}
	}
	res, err := c.base.execer.ExecContext(ctx, query, args)
	if err != nil {
		c.noteErr(err)
	}
	return res, err
}

// CheckNamedValue lets the driver check an argument. One that replaces the text makes it pointless to recognise that.
func (n checking) CheckNamedValue(v *driver.NamedValue) error {
	if n.c.pool.cfg.dialect == DialectPostgres && !isPlainValue(v.Value) && rewrites(v.Value) {
		n.c.table.rewritten()
	}
	return n.c.base.checker.CheckNamedValue(v)
}

// Prepare is never called by database/sql, which has PrepareContext.
func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext returns the driver's own statement, unless running it may concern session locks.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if c.direct(query) {
		return c.base.PrepareContext(ctx, query)
	}
	s := recognise(c.pool.cfg.dialect, query, c.pool.cfg.functions)
	if s.harmless() {
		return c.base.PrepareContext(ctx, query)
	}
	return c.lane.prepare(c, ctx, s, query)
}

// Begin is never called by database/sql, which has BeginTx.
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx opens a transaction. On MySQL and MariaDB it frees table locks, as START TRANSACTION does there.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.base.BeginTx(ctx, opts)
	if err != nil {
		c.noteErr(err)
		return nil, err
	}
	c.table.began()
	g := &c.tx
	if g.ctx != nil { // another one, whose context has ended, still waits for its Rollback
		g = new(guardedTx)
	}
	*g = guardedTx{c: c, base: tx, ctx: ctx}
	return g, nil
}

// Ping asks the driver; a driver that cannot ping counts as alive, as in database/sql.
func (c *conn) Ping(ctx context.Context) error {
	p, ok := c.base.Conn.(driver.Pinger)
	if !ok {
		return nil
	}
	err := p.Ping(ctx)
	c.noteErr(err)
	return err
}

// guardedTx is a transaction. The one that a connection has at a time costs no allocation.
type guardedTx struct {
	c    *conn
	base driver.Tx
	ctx  context.Context
}

func (t *guardedTx) Commit() error {
	err := t.base.Commit()
	t.done(err)
	return err
}

// Rollback also decides what database/sql would have decided without the guard: it keeps the connection of a
// cancelled transaction only if the driver can say whether it is still valid, and the guard always can.
func (t *guardedTx) Rollback() error {
	if t.ctx.Err() != nil && !t.c.base.keepsAfterCancel() {
		t.c.doomed = true
	}
	err := t.base.Rollback()
	t.done(err)
	return err
}

func (t *guardedTx) done(err error) {
	t.c.noteErr(err)
	t.c.table.txDone(err)
	t.ctx = nil
}

// pinnedBy makes a locker's pin the holder of the connection, or, with nil, nobody: until then nothing
// that is sent is recognised, and what is held is what the pin says.
func (c *conn) pinnedBy(list func() []Hold) {
	c.pinned = list != nil
	c.table.setHolder(list)
}

// noteErr remembers that the driver gave the session up.
func (c *conn) noteErr(err error) {
	if errors.Is(err, driver.ErrBadConn) {
		c.table.setDead()
	}
}
