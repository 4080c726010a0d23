package main

import (
	"context"
	"database/sql/driver"
	"io"
	"sync/atomic"
)

// nullDriver is a driver whose server is nothing at all: it has every interface that database/sql asks for and
// answers each query with one row, 1, at no cost. What a rival adds to it is all its own.
type nullDriver struct{ sent atomic.Int64 }

// nullConn reuses its statement, its rows and its transaction, so that it allocates nothing.
type nullConn struct {
	driver *nullDriver
	rows   nullRows
	stmt   nullStmt
}

var (
	_ driver.DriverContext      = (*nullDriver)(nil)
	_ driver.QueryerContext     = (*nullConn)(nil)
	_ driver.ExecerContext      = (*nullConn)(nil)
	_ driver.ConnPrepareContext = (*nullConn)(nil)
	_ driver.ConnBeginTx        = (*nullConn)(nil)
	_ driver.Pinger             = (*nullConn)(nil)
	_ driver.SessionResetter    = (*nullConn)(nil)
	_ driver.Validator          = (*nullConn)(nil)
	_ driver.NamedValueChecker  = (*nullConn)(nil)
	_ driver.StmtQueryContext   = (*nullStmt)(nil)
	_ driver.StmtExecContext    = (*nullStmt)(nil)
)

func (d *nullDriver) OpenConnector(string) (driver.Connector, error) { return d, nil }
func (d *nullDriver) Driver() driver.Driver                          { return d }
func (d *nullDriver) Open(string) (driver.Conn, error)               { return d.Connect(context.Background()) }
func (d *nullDriver) Connect(context.Context) (driver.Conn, error) {
	c := &nullConn{driver: d}
	c.stmt.conn = c
	return c, nil
}

func (c *nullConn) Ping(context.Context) error               { return nil }
func (c *nullConn) ResetSession(context.Context) error       { return nil }
func (c *nullConn) IsValid() bool                            { return true }
func (c *nullConn) Close() error                             { return nil }
func (c *nullConn) CheckNamedValue(*driver.NamedValue) error { return nil }
func (c *nullConn) Prepare(string) (driver.Stmt, error)      { return &c.stmt, nil }
func (c *nullConn) Begin() (driver.Tx, error)                { return nullTx{}, nil }

func (c *nullConn) PrepareContext(context.Context, string) (driver.Stmt, error) { return &c.stmt, nil }
func (c *nullConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return nullTx{}, nil
}

func (c *nullConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	c.driver.sent.Add(1)
	c.rows.read = false
	return &c.rows, nil
}

func (c *nullConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	c.driver.sent.Add(1)
	return driver.RowsAffected(1), nil
}

type nullStmt struct{ conn *nullConn }

func (s *nullStmt) Close() error                               { return nil }
func (s *nullStmt) NumInput() int                              { return -1 }
func (s *nullStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, driver.ErrSkip }
func (s *nullStmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }

func (s *nullStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, "", args)
}

func (s *nullStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.ExecContext(ctx, "", args)
}

type nullRows struct{ read bool }

var oneColumn = []string{"n"}

func (r *nullRows) Columns() []string { return oneColumn }
func (r *nullRows) Close() error      { return nil }

func (r *nullRows) Next(dest []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read = true
	dest[0] = int64(1)
	return nil
}

type nullTx struct{}

func (nullTx) Commit() error   { return nil }
func (nullTx) Rollback() error { return nil }
