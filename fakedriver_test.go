package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
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
	s := &fakeStmt{c: c, text: q, inputs: len(fakeParam.FindAllString(q, -1))}
	s.this = driver.Stmt(s)
	if c.shape.stmt != nil {
		s.this = c.shape.stmt(s)
	}
	c.session.srv.opened(1)
	return s.this, nil
}

var fakeParam = regexp.MustCompile(`\$\d`)

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

// The optional interfaces, one type each.
type (
	fakeQueryer      struct{ own *fakeConn }
	fakeQueryerCtx   struct{ own *fakeConn }
	fakeExecer       struct{ own *fakeConn }
	fakeExecerCtx    struct{ own *fakeConn }
	fakePreparer     struct{ own *fakeConn }
	fakeBeginner     struct{ own *fakeConn }
	fakePinger       struct{ own *fakeConn }
	fakeResetter     struct{ own *fakeConn }
	fakeValidator    struct{ own *fakeConn }
	fakeConnChecker  struct{ own *fakeConn }
	fakeStmtExecCtx  struct{ st *fakeStmt }
	fakeStmtQueryCtx struct{ st *fakeStmt }
	fakeStmtChecker  struct{ st *fakeStmt }
	fakeConverter    struct{ st *fakeStmt }
	fakeNextSet      struct{ r *fakeRows }
	fakeTypeName     struct{ r *fakeRows }
	fakeTypeLength   struct{ r *fakeRows }
	fakeTypeNullable struct{ r *fakeRows }
	fakeTypeDecimal  struct{ r *fakeRows }
	fakeTypeScan     struct{ r *fakeRows }
)

func (f fakeQueryer) Query(q string, args []driver.Value) (driver.Rows, error) {
	if _, newer := f.own.this.(driver.QueryerContext); newer {
		panic("fake: QueryContext was not called")
	}
	return f.own.query(context.Background(), "Conn.Query", q, named(args))
}

func (f fakeQueryerCtx) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	return f.own.query(ctx, "Conn.QueryContext", q, args)
}

func (f fakeExecer) Exec(q string, args []driver.Value) (driver.Result, error) {
	if _, newer := f.own.this.(driver.ExecerContext); newer {
		panic("fake: ExecContext was not called")
	}
	return f.own.exec(context.Background(), "Conn.Exec", q, named(args))
}

func (f fakeExecerCtx) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	return f.own.exec(ctx, "Conn.ExecContext", q, args)
}

func (f fakePreparer) PrepareContext(_ context.Context, q string) (driver.Stmt, error) {
	return f.own.prepare("Conn.PrepareContext", q)
}

func (f fakeBeginner) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return f.own.begin(fmt.Sprintf("Conn.BeginTx %v read-only=%v", sql.IsolationLevel(o.Isolation), o.ReadOnly))
}

func (f fakePinger) Ping(ctx context.Context) error {
	f.own.note("Conn.Ping", "", nil)
	_, err := f.own.session.run(ctx, "SELECT 0", nil)
	return err
}

func (f fakeResetter) ResetSession(context.Context) error {
	f.own.note("Conn.ResetSession", "", nil)
	_, err := f.own.session.run(context.Background(), "SELECT 0", nil)
	return err
}

func (f fakeValidator) IsValid() bool {
	f.own.session.line++
	return !f.own.session.srv.invalid.Load()
}

// The checkers know three types that the default does not. One is sent as an int64 (which says who converted it,
// the connection or the statement), one as it is, and one is removed.
type (
	fakeID     struct{ n int64 }
	fakeRaw    struct{ s string }
	fakeOption struct{}
)

func (r fakeRaw) String() string { return r.s }

// fakeRewriter is an argument that replaces the text, as pgx's QueryRewriter does.
type fakeRewriter struct{ text string }

func (fakeRewriter) RewriteQuery() {}

func fakeCheck(v *driver.NamedValue, shift int64) error {
	switch own := v.Value.(type) {
	case fakeID:
		v.Value = own.n + shift
		return nil
	case fakeRaw, fakeRewriter:
		return nil
	case fakeOption:
		return driver.ErrRemoveArgument
	case error:
		return own
	}
	return driver.ErrSkip
}

func (f fakeConnChecker) CheckNamedValue(v *driver.NamedValue) error { return fakeCheck(v, 100) }
func (f fakeStmtChecker) CheckNamedValue(v *driver.NamedValue) error { return fakeCheck(v, 200) }

func (f fakeConverter) ColumnConverter(i int) driver.ValueConverter { return fakeColumn(i) }

type fakeColumn int

func (c fakeColumn) ConvertValue(v any) (driver.Value, error) {
	if id, ok := v.(fakeID); ok {
		return id.n + 300 + int64(c), nil
	}
	return driver.DefaultParameterConverter.ConvertValue(v)
}

func (f fakeStmtExecCtx) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return f.st.c.exec(ctx, "Stmt.ExecContext", f.st.text, args)
}

func (f fakeStmtQueryCtx) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return f.st.c.query(ctx, "Stmt.QueryContext", f.st.text, args)
}

func (f fakeNextSet) HasNextResultSet() bool { return f.r.set+1 < len(f.r.res.sets) }
func (f fakeNextSet) NextResultSet() error {
	if !f.HasNextResultSet() {
		return io.EOF
	}
	f.r.set, f.r.next = f.r.set+1, 0
	return nil
}

func (f fakeTypeName) ColumnTypeDatabaseTypeName(i int) string { return fmt.Sprint("TYPE", i) }
func (f fakeTypeLength) ColumnTypeLength(i int) (int64, bool)  { return int64(10 + i), true }
func (f fakeTypeNullable) ColumnTypeNullable(int) (bool, bool) { return true, true }
func (f fakeTypeDecimal) ColumnTypePrecisionScale(i int) (int64, int64, bool) {
	return int64(i), 2, true
}
func (f fakeTypeScan) ColumnTypeScanType(int) reflect.Type { return reflect.TypeFor[sql.RawBytes]() }

// Whole families, for the shapes below.
type (
	fakeFullStmt struct {
		*fakeStmt
		fakeStmtExecCtx
		fakeStmtQueryCtx
		fakeStmtChecker
		fakeConverter
	}
	fakeFullRows struct {
		*fakeRows
		fakeNextSet
		fakeTypeName
		fakeTypeLength
		fakeTypeNullable
		fakeTypeDecimal
		fakeTypeScan
	}
	fakeContextStmt struct {
		*fakeStmt
		fakeStmtExecCtx
		fakeStmtQueryCtx
	}
)

func contextStmt(s *fakeStmt) driver.Stmt {
	return fakeContextStmt{s, fakeStmtExecCtx{s}, fakeStmtQueryCtx{s}}
}

func fullStmt(s *fakeStmt) driver.Stmt {
	return fakeFullStmt{s, fakeStmtExecCtx{s}, fakeStmtQueryCtx{s}, fakeStmtChecker{s}, fakeConverter{s}}
}

func fullRows(r *fakeRows) driver.Rows {
	return fakeFullRows{r, fakeNextSet{r}, fakeTypeName{r}, fakeTypeLength{r}, fakeTypeNullable{r}, fakeTypeDecimal{r}, fakeTypeScan{r}}
}

// modern is the shape of the drivers of today, and what tests use that are not about shapes. Like pgx it has no
// driver.Validator.
var modern = fakeShape{name: "modern", ctx: true, stmt: contextStmt, rows: fullRows, conn: func(c *fakeConn) driver.Conn {
	return struct {
		*fakeConn
		fakeQueryerCtx
		fakeExecerCtx
		fakePreparer
		fakeBeginner
		fakePinger
		fakeResetter
	}{c, fakeQueryerCtx{c}, fakeExecerCtx{c}, fakePreparer{c}, fakeBeginner{c}, fakePinger{c}, fakeResetter{c}}
}}

// fakeShapes are the mandatory methods only, each optional interface alone, those whose presence matters
// together, and everything.
var fakeShapes = []fakeShape{
	{name: "mandatory methods only"},
	modern,
	{name: "Queryer", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeQueryer
		}{c, fakeQueryer{c}}
	}},
	{name: "QueryerContext", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeQueryerCtx
		}{c, fakeQueryerCtx{c}}
	}},
	{name: "Execer", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeExecer
		}{c, fakeExecer{c}}
	}},
	{name: "ExecerContext", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeExecerCtx
		}{c, fakeExecerCtx{c}}
	}},
	{name: "QueryerContext and ExecerContext", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeQueryerCtx
			fakeExecerCtx
		}{c, fakeQueryerCtx{c}, fakeExecerCtx{c}}
	}},
	{name: "QueryerContext and NamedValueChecker", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeQueryerCtx
			fakeConnChecker
		}{c, fakeQueryerCtx{c}, fakeConnChecker{c}}
	}},
	{name: "ExecerContext and NamedValueChecker", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeExecerCtx
			fakeConnChecker
		}{c, fakeExecerCtx{c}, fakeConnChecker{c}}
	}},
	{name: "ConnPrepareContext", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakePreparer
		}{c, fakePreparer{c}}
	}},
	{name: "ConnBeginTx", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeBeginner
		}{c, fakeBeginner{c}}
	}},
	{name: "Pinger", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakePinger
		}{c, fakePinger{c}}
	}},
	{name: "SessionResetter", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeResetter
		}{c, fakeResetter{c}}
	}},
	{name: "Validator", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeValidator
		}{c, fakeValidator{c}}
	}},
	{name: "SessionResetter and Validator", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeResetter
			fakeValidator
		}{c, fakeResetter{c}, fakeValidator{c}}
	}},
	{name: "NamedValueChecker", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeConnChecker
		}{c, fakeConnChecker{c}}
	}},
	{name: "Stmt NamedValueChecker", stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeStmtChecker
		}{s, fakeStmtChecker{s}}
	}},
	{name: "both NamedValueCheckers", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeConnChecker
		}{c, fakeConnChecker{c}}
	}, stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeStmtChecker
		}{s, fakeStmtChecker{s}}
	}},
	{name: "Stmt ColumnConverter", stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeConverter
		}{s, fakeConverter{s}}
	}},
	{name: "Stmt ColumnConverter and Conn NamedValueChecker", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeConnChecker
		}{c, fakeConnChecker{c}}
	}, stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeConverter
		}{s, fakeConverter{s}}
	}},
	{name: "Stmt ColumnConverter and NamedValueChecker", stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeConverter
			fakeStmtChecker
		}{s, fakeConverter{s}, fakeStmtChecker{s}}
	}},
	{name: "StmtExecContext", stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeStmtExecCtx
		}{s, fakeStmtExecCtx{s}}
	}},
	{name: "StmtQueryContext", stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeStmtQueryCtx
		}{s, fakeStmtQueryCtx{s}}
	}},
	{name: "DriverContext", ctx: true},
	{name: "connector Close", ctx: true, closer: true},
	{name: "RowsNextResultSet", rows: func(r *fakeRows) driver.Rows {
		return struct {
			*fakeRows
			fakeNextSet
		}{r, fakeNextSet{r}}
	}},
	{name: "RowsColumnTypeDatabaseTypeName", rows: func(r *fakeRows) driver.Rows {
		return struct {
			*fakeRows
			fakeTypeName
		}{r, fakeTypeName{r}}
	}},
	{name: "RowsColumnTypeLength", rows: func(r *fakeRows) driver.Rows {
		return struct {
			*fakeRows
			fakeTypeLength
		}{r, fakeTypeLength{r}}
	}},
	{name: "RowsColumnTypeNullable", rows: func(r *fakeRows) driver.Rows {
		return struct {
			*fakeRows
			fakeTypeNullable
		}{r, fakeTypeNullable{r}}
	}},
	{name: "RowsColumnTypePrecisionScale", rows: func(r *fakeRows) driver.Rows {
		return struct {
			*fakeRows
			fakeTypeDecimal
		}{r, fakeTypeDecimal{r}}
	}},
	{name: "RowsColumnTypeScanType", rows: func(r *fakeRows) driver.Rows {
		return struct {
			*fakeRows
			fakeTypeScan
		}{r, fakeTypeScan{r}}
	}},
	{name: "everything", ctx: true, closer: true, stmt: fullStmt, rows: fullRows, conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeQueryer
			fakeQueryerCtx
			fakeExecer
			fakeExecerCtx
			fakePreparer
			fakeBeginner
			fakePinger
			fakeResetter
			fakeValidator
			fakeConnChecker
		}{
			c, fakeQueryer{c}, fakeQueryerCtx{c}, fakeExecer{c}, fakeExecerCtx{c}, fakePreparer{c},
			fakeBeginner{c}, fakePinger{c}, fakeResetter{c}, fakeValidator{c}, fakeConnChecker{c},
		}
	}},
}

// everything is the shape that has it all.
var everything = fakeShapes[len(fakeShapes)-1]

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
