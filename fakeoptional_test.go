package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"reflect"
)

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
	if f.own.session.srv.quiet {
		return f.own.begin("Conn.BeginTx")
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
