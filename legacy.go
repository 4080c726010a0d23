package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// base is the driver's own connection with its optional interfaces looked up once. Where the driver has only
// the forms without a context, they are called as database/sql itself would call them.
type base struct {
	driver.Conn
	queryer driver.QueryerContext // nil where the driver has neither form
	execer  driver.ExecerContext  // nil where the driver has neither form
	checker driver.NamedValueChecker
	valid   driver.Validator
	reset   driver.SessionResetter
}

func newBase(c driver.Conn) base {
	b := base{Conn: c}
	b.queryer, _ = c.(driver.QueryerContext)
	b.execer, _ = c.(driver.ExecerContext)
	b.checker, _ = c.(driver.NamedValueChecker)
	b.valid, _ = c.(driver.Validator)
	b.reset, _ = c.(driver.SessionResetter)
	if q, ok := c.(driver.Queryer); ok && b.queryer == nil { //nolint:staticcheck // drivers that have nothing newer
		b.queryer = legacyQueryer{q}
	}
	if e, ok := c.(driver.Execer); ok && b.execer == nil { //nolint:staticcheck // drivers that have nothing newer
		b.execer = legacyExecer{e}
	}
	return b
}

// keepsAfterCancel says whether database/sql would keep the driver's own connection after a transaction
// whose context was cancelled: only with both interfaces.
func (b *base) keepsAfterCancel() bool { return b.valid != nil && b.reset != nil }

func (b *base) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if p, ok := b.Conn.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	stmt, err := b.Prepare(query)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		stmt.Close()
		return nil, ctx.Err()
	}
	return stmt, nil
}

func (b *base) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if t, ok := b.Conn.(driver.ConnBeginTx); ok {
		return t.BeginTx(ctx, opts)
	}
	if sql.IsolationLevel(opts.Isolation) != sql.LevelDefault {
		return nil, errors.New("sql: driver does not support non-default isolation level")
	}
	if opts.ReadOnly {
		return nil, errors.New("sql: driver does not support read-only transactions")
	}
	tx, err := b.Begin() //nolint:staticcheck // drivers that have nothing newer
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		tx.Rollback()
		return nil, ctx.Err()
	}
	return tx, nil
}

func (b *base) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if b.queryer == nil {
		return nil, driver.ErrSkip
	}
	return b.queryer.QueryContext(ctx, query, args)
}

func (b *base) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if b.execer == nil {
		return nil, driver.ErrSkip
	}
	return b.execer.ExecContext(ctx, query, args)
}

type legacyQueryer struct{ driver.Queryer }

func (q legacyQueryer) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	values, err := legacyArgs(ctx, args)
	if err != nil {
		return nil, err
	}
	return q.Query(query, values)
}

type legacyExecer struct{ driver.Execer }

func (e legacyExecer) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	values, err := legacyArgs(ctx, args)
	if err != nil {
		return nil, err
	}
	return e.Exec(query, values)
}

// legacyArgs are the arguments of the forms without a context, which are not called once ctx has ended.
func legacyArgs(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, a := range args {
		if a.Name != "" {
			return nil, errors.New("sql: driver does not support the use of Named Parameters")
		}
		values[i] = a.Value
	}
	return values, ctx.Err()
}
