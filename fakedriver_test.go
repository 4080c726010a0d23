package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// fakeDriver is a driver for a fakeServer with just those optional interfaces that its shape has. Where a newer
// form of a method exists, the older one panics: nobody may call it.
type fakeDriver struct {
	srv   *fakeServer
	shape fakeShape
}

// fakeShape says which optional interfaces a driver has, beyond the mandatory ones.
type fakeShape struct {
	name   string
	conn   func(*fakeConn) driver.Conn
	stmt   func(*fakeStmt) driver.Stmt
	rows   func(*fakeRows) driver.Rows
	ctx    bool // driver.DriverContext
	closer bool // its connector is an io.Closer
}

func (d *fakeDriver) Open(string) (driver.Conn, error) { return d.connect() }

func (d *fakeDriver) connect() (driver.Conn, error) {
	c := &fakeConn{session: d.srv.newSession(), shape: d.shape}
	c.this = driver.Conn(c)
	if d.shape.conn != nil {
		c.this = d.shape.conn(c)
	}
	c.note("Open", "", nil)
	return c.this, nil
}

type fakeDriverContext struct{ *fakeDriver }

func (d fakeDriverContext) OpenConnector(name string) (driver.Connector, error) {
	if name == "bad" {
		return nil, &fakeError{"bad data source name"}
	}
	if d.shape.closer {
		return fakeClosingConnector{fakeConnector{d.fakeDriver}}, nil
	}
	return fakeConnector{d.fakeDriver}, nil
}

type fakeConnector struct{ d *fakeDriver }

func (c fakeConnector) Connect(context.Context) (driver.Conn, error) { return c.d.connect() }
func (c fakeConnector) Driver() driver.Driver                        { return c.d }

type fakeClosingConnector struct{ fakeConnector }

func (c fakeClosingConnector) Close() error {
	c.d.srv.note(&fakeSession{}, "Connector.Close", "", nil)
	return &fakeError{"closing the connector"}
}

// fakeConn has the mandatory methods of a connection.
type fakeConn struct {
	session *fakeSession
	shape   fakeShape
	this    driver.Conn // with the optional interfaces
	rows    int         // that are open
}

func (c *fakeConn) note(call, text string, args []driver.NamedValue) {
	c.session.srv.note(c.session, call, text, args)
}

func (c *fakeConn) Prepare(q string) (driver.Stmt, error) {
	if _, newer := c.this.(driver.ConnPrepareContext); newer {
		panic("fake: PrepareContext was not called")
	}
	return c.prepare("Conn.Prepare", q)
}

func (c *fakeConn) prepare(call, q string) (driver.Stmt, error) {
	c.note(call, q, nil)
	if c.session.closed {
		return nil, errFakeGone
	}
	s := &fakeStmt{c: c, text: q, inputs: strings.Count(q, "$")}
	s.this = driver.Stmt(s)
	if c.shape.stmt != nil {
		s.this = c.shape.stmt(s)
	}
	c.session.srv.opened(1)
	return s.this, nil
}

func (c *fakeConn) Close() error {
	c.note("Conn.Close", "", nil)
	if c.session.closed {
		c.session.srv.tb.Errorf("session %d was closed twice", c.session.id)
	}
	if c.rows != 0 && !c.session.srv.lenient {
		c.session.srv.tb.Errorf("session %d was closed with %d rows open", c.session.id, c.rows)
	}
	c.session.end()
	c.session.srv.mu.Lock()
	defer c.session.srv.mu.Unlock()
	c.session.closed = true
	return nil
}

func (c *fakeConn) Begin() (driver.Tx, error) {
	if _, newer := c.this.(driver.ConnBeginTx); newer {
		panic("fake: BeginTx was not called")
	}
	return c.begin("Conn.Begin")
}

func (c *fakeConn) begin(call string) (driver.Tx, error) {
	c.note(call, "", nil)
	if _, err := c.session.run(context.Background(), "BEGIN", nil); err != nil {
		return nil, err
	}
	return &fakeTx{c: c}, nil
}

// query and exec are what every form of them comes to.
func (c *fakeConn) query(ctx context.Context, call, q string, args []driver.NamedValue) (driver.Rows, error) {
	c.note(call, q, args)
	res, err := c.session.run(ctx, q, args)
	if err != nil {
		return nil, err
	}
	r := &fakeRows{c: c, res: res}
	c.rows++
	c.session.srv.opened(1)
	if c.shape.rows != nil {
		return c.shape.rows(r), nil
	}
	return r, nil
}

func (c *fakeConn) exec(ctx context.Context, call, q string, args []driver.NamedValue) (driver.Result, error) {
	c.note(call, q, args)
	res, err := c.session.run(ctx, q, args)
	if err != nil {
		return nil, err
	}
	if res.closeErr != nil { // there are no rows to show it
		return nil, res.closeErr
	}
	return fakeDone{int64(len(res.sets))}, res.rowErr
}

type fakeDone struct{ sets int64 }

func (r fakeDone) LastInsertId() (int64, error) { return 0, &fakeError{"no insert"} }
func (r fakeDone) RowsAffected() (int64, error) { return r.sets, nil }

type fakeTx struct{ c *fakeConn }

func (t *fakeTx) Commit() error   { return t.end("Tx.Commit", "COMMIT") }
func (t *fakeTx) Rollback() error { return t.end("Tx.Rollback", "ROLLBACK") }
func (t *fakeTx) end(call, q string) error {
	t.c.note(call, "", nil)
	_, err := t.c.session.run(context.Background(), q, nil)
	return err
}

// fakeStmt has the mandatory methods of a prepared statement.
type fakeStmt struct {
	c      *fakeConn
	text   string
	inputs int
	closed bool
	this   driver.Stmt
}

func (s *fakeStmt) NumInput() int { return s.inputs }

func (s *fakeStmt) Close() error {
	s.c.note("Stmt.Close", s.text, nil)
	if s.closed {
		s.c.session.srv.tb.Errorf("statement %q was closed twice", s.text)
	}
	s.closed = true
	s.c.session.srv.opened(-1)
	return nil
}

func (s *fakeStmt) Exec(args []driver.Value) (driver.Result, error) {
	if _, newer := s.this.(driver.StmtExecContext); newer {
		panic("fake: ExecContext was not called")
	}
	return s.c.exec(context.Background(), "Stmt.Exec", s.text, named(args))
}

func (s *fakeStmt) Query(args []driver.Value) (driver.Rows, error) {
	if _, newer := s.this.(driver.StmtQueryContext); newer {
		panic("fake: QueryContext was not called")
	}
	return s.c.query(context.Background(), "Stmt.Query", s.text, named(args))
}

func named(args []driver.Value) []driver.NamedValue {
	all := make([]driver.NamedValue, len(args))
	for i, v := range args {
		all[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return all
}

// fakeRows has the mandatory methods of rows.
type fakeRows struct {
	c         *fakeConn
	res       *fakeResult
	set, next int
	read      int
	closed    bool
}

func (r *fakeRows) Columns() []string {
	if r.set < len(r.res.sets) {
		return r.res.sets[r.set].cols
	}
	return nil
}

func (r *fakeRows) Next(dest []driver.Value) error {
	r.c.session.line++
	switch {
	case r.res.rowErr != nil && r.read == r.res.failAt:
		return r.res.rowErr
	case r.set >= len(r.res.sets) || r.next >= len(r.res.sets[r.set].rows):
		return io.EOF
	}
	copy(dest, r.res.sets[r.set].rows[r.next])
	r.next++
	r.read++
	return nil
}

func (r *fakeRows) Close() error {
	r.c.note("Rows.Close", "", nil)
	if r.closed {
		r.c.session.srv.tb.Error("rows were closed twice")
		return nil
	}
	r.closed = true
	r.c.rows--
	r.c.session.srv.opened(-1)
	return r.res.closeErr
}

var fakeNames atomic.Int64

// openDB opens a pool under a registered name, as users do, and closes it when the test ends. It is guarded unless
// srv is bare, for PostgreSQL, and reports to srv.
func (srv *fakeServer) openDB(shape fakeShape, opts ...Option) *sql.DB {
	db, err := sql.Open(srv.register(shape, opts...), "fake")
	if err != nil {
		srv.tb.Fatal(err)
	}
	srv.tb.Cleanup(func() { _ = db.Close() })
	return db
}

// register registers a driver under a name of its own.
func (srv *fakeServer) register(shape fakeShape, opts ...Option) string {
	d := driver.Driver(&fakeDriver{srv, shape})
	if shape.ctx {
		d = fakeDriverContext{d.(*fakeDriver)}
	}
	if !srv.bare {
		d = Wrap(d, slices.Concat([]Option{WithDialect(DialectPostgres), WithReport(srv.report)}, opts)...)
	}
	name := "fake" + strconv.FormatInt(fakeNames.Add(1), 10)
	sql.Register(name, d)
	return name
}
