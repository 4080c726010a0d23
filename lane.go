package sqllock

import (
	"context"
	"database/sql/driver"

	"github.com/ngrok/sqlmw"
)

// lane is the observed lane: the same physical connection behind sqlmw, with this connection's hold table as
// its interceptor. Only statements that may concern session locks take it.
//
// What sqlmw leaves out is made good around it, so that it reaches nobody: below it stands base, which has
// every form that sqlmw would assert or fall back for; above it stand conn and observedStmt, which present
// database/sql with what the driver's own connection and statement have.
type lane struct{ conn driver.Conn }

// oneConn is a driver whose only connection is open already.
type oneConn struct{ conn driver.Conn }

func (o oneConn) Open(string) (driver.Conn, error) { return o.conn, nil }

func (l *lane) of(c *conn) driver.Conn {
	if l.conn == nil {
		l.conn, _ = sqlmw.Driver(oneConn{&c.base}, observer{}).Open("")
	}
	return l.conn
}

func (l *lane) query(c *conn, ctx context.Context, s statement, query string, args []driver.NamedValue) (driver.Rows, error) {
	o := c.observe(s, query, args)
	rows, err := l.of(c).(driver.QueryerContext).QueryContext(o.in(ctx), query, args)
	o.sent(err)
	return rows, err
}

func (l *lane) exec(c *conn, ctx context.Context, s statement, query string, args []driver.NamedValue) (driver.Result, error) {
	o := c.observe(s, query, args)
	return l.of(c).(driver.ExecerContext).ExecContext(o.in(ctx), query, args)
}

func (l *lane) prepare(c *conn, ctx context.Context, s statement, query string) (driver.Stmt, error) {
	st := &observedStmt{c: c, s: s, query: query}
	var err error
	ctx = context.WithValue(ctx, preparedKey{}, st)
	if st.Stmt, err = l.of(c).(driver.ConnPrepareContext).PrepareContext(ctx, query); err != nil {
		return nil, err
	}
	return st.presented(), nil
}

type observationKey struct{}
type preparedKey struct{}

func (o *observation) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, observationKey{}, o)
}

func observationIn(ctx context.Context) *observation {
	o, _ := ctx.Value(observationKey{}).(*observation)
	return o
}

// observer is the interceptor: it tells each statement's observation, which travels in the context, what came of it.
type observer struct{ sqlmw.NullInterceptor }

func (observer) ConnExecContext(ctx context.Context, c driver.ExecerContext, query string, args []driver.NamedValue) (driver.Result, error) {
	res, err := c.ExecContext(ctx, query, args)
	observationIn(ctx).executed(err)
	return res, err
}

func (observer) ConnQueryContext(ctx context.Context, c driver.QueryerContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	rows, err := c.QueryContext(ctx, query, args)
	o := observationIn(ctx)
	o.queried(err)
	return ctx, o.seeLater(rows), err
}

func (observer) ConnPrepareContext(ctx context.Context, c driver.ConnPrepareContext, query string) (context.Context, driver.Stmt, error) {
	stmt, err := c.PrepareContext(ctx, query)
	if st, ok := ctx.Value(preparedKey{}).(*observedStmt); ok {
		st.own = stmt
	}
	return ctx, stmt, err
}

func (observer) StmtExecContext(ctx context.Context, s driver.StmtExecContext, _ string, args []driver.NamedValue) (driver.Result, error) {
	res, err := s.ExecContext(ctx, args)
	observationIn(ctx).executed(err)
	return res, err
}

func (observer) StmtQueryContext(ctx context.Context, s driver.StmtQueryContext, _ string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	rows, err := s.QueryContext(ctx, args)
	o := observationIn(ctx)
	o.queried(err)
	return ctx, o.seeLater(rows), err
}

func (observer) RowsNext(ctx context.Context, rows driver.Rows, dest []driver.Value) error {
	err := rows.Next(dest)
	observationIn(ctx).row(dest, err)
	return err
}

func (observer) RowsClose(ctx context.Context, rows driver.Rows) error {
	err := rows.Close()
	observationIn(ctx).closed(err)
	return err
}

// observedStmt is a prepared statement that may concern session locks. Its Stmt is sqlmw's, own the driver's.
type observedStmt struct {
	driver.Stmt
	own   driver.Stmt
	c     *conn
	s     statement
	query string
}

var (
	_ driver.StmtExecContext   = (*observedStmt)(nil)
	_ driver.StmtQueryContext  = (*observedStmt)(nil)
	_ driver.ColumnConverter   = converting{}
	_ driver.NamedValueChecker = stmtChecking{}
)

type converting struct{ own driver.ColumnConverter } //nolint:staticcheck // drivers that have nothing newer
type stmtChecking struct{ driver.NamedValueChecker }

func (c converting) ColumnConverter(i int) driver.ValueConverter { return c.own.ColumnConverter(i) }

// presented returns s with exactly those optional interfaces of the driver's own statement
// on whose presence database/sql acts.
func (s *observedStmt) presented() driver.Stmt {
	cc, hasCC := s.own.(driver.ColumnConverter) //nolint:staticcheck // drivers that have nothing newer
	nv, hasNV := s.own.(driver.NamedValueChecker)
	switch {
	case hasCC && hasNV:
		return struct {
			*observedStmt
			converting
			stmtChecking
		}{s, converting{cc}, stmtChecking{nv}}
	case hasCC:
		return struct {
			*observedStmt
			converting
		}{s, converting{cc}}
	case hasNV:
		return struct {
			*observedStmt
			stmtChecking
		}{s, stmtChecking{nv}}
	}
	return s
}

func (s *observedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if s.c.table.concerns(s.s) {
		ctx = s.c.observe(s.s, s.query, args).in(ctx)
	}
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s *observedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if !s.c.table.concerns(s.s) {
		return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	}
	o := s.c.observe(s.s, s.query, args)
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(o.in(ctx), args)
	o.sent(err)
	return rows, err
}
