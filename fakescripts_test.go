package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A play is one run of a script, bare or guarded, and what its program saw.
type play struct {
	t    *testing.T
	srv  *fakeServer
	db   *sql.DB
	conn *sql.Conn // pinned
	lane fakeLane
	log  []string
}

// A fakeLane is a set of statements of one kind, so that each script runs on the direct and on the observed lane.
type fakeLane struct {
	name  string
	one   string // with one parameter
	plain string // without; leaves nothing behind, so that it may run on the pool
	many  string // with three result sets
}

var fakeLanes = []fakeLane{
	{"ordinary", "SELECT echo($1)", "SELECT 1", "SELECT sets(3)"},
	{"observed", "SELECT pg_try_advisory_lock($1)", "SELECT pg_advisory_xact_lock(1)", "SELECT pg_try_advisory_lock(1); SELECT 2; SELECT 3"},
}

// A handle is what *sql.DB, *sql.Conn and *sql.Tx have in common.
type handle interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func (p *play) say(format string, args ...any) { p.log = append(p.log, fmt.Sprintf(format, args...)) }

// err says everything that a program can learn from an error.
func (p *play) err(what string, err error) {
	own := new(fakeError)
	p.say("%s: %v, cause %v, own %v, ctx %v, bad %v", what, err, errors.Is(err, errFakeCause), errors.As(err, &own),
		errors.Is(err, context.Canceled), errors.Is(err, driver.ErrBadConn))
}

func (p *play) query(h handle, text string, args ...any) {
	rows, err := h.QueryContext(p.t.Context(), text, args...)
	p.rows(rows, err)
}

// rows reads everything that rows can tell.
func (p *play) rows(rows *sql.Rows, err error) {
	if p.err("query", err); err != nil {
		return
	}
	for more := true; more; more = rows.NextResultSet() {
		p.columns(rows)
		for rows.Next() {
			var v any
			p.err("scan", rows.Scan(&v))
			p.say("row %T(%v)", v, v)
		}
		p.err("rows", rows.Err())
	}
	p.err("close", rows.Close())
}

func (p *play) columns(rows *sql.Rows) {
	types, err := rows.ColumnTypes()
	p.err("columns", err)
	for _, c := range types {
		length, hasLength := c.Length()
		null, hasNull := c.Nullable()
		precision, scale, hasScale := c.DecimalSize()
		p.say("column %s %s %d %v %v %v %d %d %v %v", c.Name(), c.DatabaseTypeName(), length, hasLength, null, hasNull,
			precision, scale, hasScale, c.ScanType())
	}
}

func (p *play) exec(h handle, text string, args ...any) {
	res, err := h.ExecContext(p.t.Context(), text, args...)
	if p.err("exec", err); err != nil {
		return
	}
	n, err := res.RowsAffected()
	p.say("affected %d", n)
	p.err("affected", err)
	_, err = res.LastInsertId()
	p.err("inserted", err)
}

// prepared runs a statement twice each way.
func (p *play) prepared(h handle, text string, args ...any) {
	st, err := h.PrepareContext(p.t.Context(), text)
	if p.err("prepare", err); err != nil {
		return
	}
	for range 2 {
		rows, err := st.QueryContext(p.t.Context(), args...)
		p.rows(rows, err)
		_, err = st.ExecContext(p.t.Context(), args...)
		p.err("exec", err)
	}
	p.err("close", st.Close())
}

// every is each way to send a statement.
func (p *play) every(h handle, text string, args ...any) {
	p.query(h, text, args...)
	p.exec(h, text, args...)
	p.prepared(h, text, args...)
}

// tx runs f in a transaction.
func (p *play) tx(ctx context.Context, opts *sql.TxOptions, f func(*sql.Tx)) {
	tx, err := p.db.BeginTx(ctx, opts)
	if p.err("begin", err); err == nil {
		f(tx)
	}
}

type fakeScript struct {
	name string
	run  func(*play)
}

var fakeScripts = []fakeScript{
	{"on a pool", func(p *play) { p.every(p.db, p.lane.plain) }},
	{"on a pinned connection", func(p *play) {
		p.every(p.conn, p.lane.one, 7)
		p.every(p.conn, p.lane.many)
	}},
	{"presence", func(p *play) {
		p.err("raw", p.conn.Raw(func(dc any) error {
			_, q := dc.(driver.Queryer) //nolint:staticcheck // either form counts
			_, qc := dc.(driver.QueryerContext)
			_, e := dc.(driver.Execer) //nolint:staticcheck // either form counts
			_, ec := dc.(driver.ExecerContext)
			_, n := dc.(driver.NamedValueChecker)
			p.say("query %v exec %v checker %v", q || qc, e || ec, n)
			return nil
		}))
	}},
	{"values", func(p *play) {
		for _, v := range []any{int64(1), uint8(2), "3", []byte("4"), 5.5, true, nil, time.Unix(6, 0).UTC(), new(int64), sql.NullInt64{Int64: 7, Valid: true}, sql.NullInt64{}} {
			p.every(p.conn, p.lane.one, v)
		}
	}},
	{"custom types", func(p *play) {
		for _, v := range []any{fakeID{1}, fakeRaw{"2"}, struct{}{}, &fakeError{"from the checker"}} {
			p.every(p.conn, p.lane.one, v)
		}
	}},
	{"removed argument", func(p *play) {
		p.every(p.conn, p.lane.one, fakeOption{}, 7)
		p.every(p.conn, p.lane.one, 7, fakeOption{})
		p.every(p.conn, p.lane.plain, fakeOption{})
	}},
	{"argument count", func(p *play) {
		p.every(p.conn, p.lane.one)
		p.every(p.conn, p.lane.one, 1, 2)
		p.every(p.conn, p.lane.plain, 1)
	}},
	{"named argument", func(p *play) { p.every(p.conn, p.lane.one, sql.Named("k", 7)) }},
	{"isolation levels", func(p *play) {
		for _, o := range []*sql.TxOptions{nil, {}, {Isolation: sql.LevelSerializable}, {ReadOnly: true}, {Isolation: sql.LevelReadCommitted, ReadOnly: true}} {
			p.tx(p.t.Context(), o, func(tx *sql.Tx) {
				p.every(tx, p.lane.plain)
				p.err("commit", tx.Commit())
			})
		}
	}},
	{"statement in a transaction", func(p *play) {
		st, err := p.db.Prepare(p.lane.plain)
		p.err("prepare", err)
		p.tx(p.t.Context(), nil, func(tx *sql.Tx) {
			rows, err := tx.Stmt(st).Query()
			p.rows(rows, err)
			p.err("rollback", tx.Rollback())
		})
		p.err("close", st.Close())
	}},
	{"transaction fails", func(p *play) {
		p.srv.inject("BEGIN", failBefore(&fakeError{"begin"}), nil)
		p.srv.inject("COMMIT", failAfter(&fakeError{"commit"}))
		p.srv.inject("ROLLBACK", failAfter(driver.ErrBadConn))
		p.tx(p.t.Context(), nil, nil)
		p.tx(p.t.Context(), nil, func(tx *sql.Tx) { p.err("commit", tx.Commit()) })
		p.tx(p.t.Context(), nil, func(tx *sql.Tx) { p.err("rollback", tx.Rollback()) })
		p.say("open %d", p.db.Stats().OpenConnections)
	}},
	{"transaction on an ended context", func(p *play) {
		ctx, cancel := context.WithCancel(p.t.Context())
		cancel()
		p.tx(ctx, nil, nil)
		_, err := p.conn.BeginTx(ctx, nil)
		p.err("begin", err)
	}},
	{"transaction is cancelled", func(p *play) {
		ctx, cancel := context.WithCancel(p.t.Context())
		p.tx(ctx, nil, func(tx *sql.Tx) {
			p.query(tx, p.lane.plain)
			cancel()
			synctest.Wait()
			p.err("commit", tx.Commit())
		})
		p.say("open %d", p.db.Stats().OpenConnections)
		p.query(p.db, p.lane.plain)
	}},
	{"ping", func(p *play) {
		p.err("ping", p.db.Ping())
		p.err("ping", p.conn.PingContext(p.t.Context()))
		if p.pings() {
			p.srv.inject("SELECT 0", failBefore(&fakeError{"ping"}))
		}
		p.err("ping", p.conn.PingContext(p.t.Context()))
	}},
	{"errors", func(p *play) {
		for range 4 {
			p.srv.inject(p.lane.one, failBefore(&fakeError{"before"}), failAfter(fmt.Errorf("around: %w", &fakeError{"after"})), failRow(0, &fakeError{"row 0"}), failRow(1, &fakeError{"row 1"}), failClose(&fakeError{"close"}))
			for range 5 {
				p.every(p.conn, p.lane.one, 7)
			}
		}
	}},
	{"prepare is skipped to", func(p *play) {
		p.srv.inject(p.lane.one, failBefore(driver.ErrSkip), nil, failBefore(driver.ErrSkip))
		p.query(p.conn, p.lane.one, 7)
		p.exec(p.conn, p.lane.one, 7)
		p.exec(p.conn, p.lane.one, 7)
	}},
	{"bad connection", func(p *play) {
		p.srv.inject(p.lane.plain, failBefore(driver.ErrBadConn), failBefore(fmt.Errorf("wrapped: %w", driver.ErrBadConn)), nil, failBefore(driver.ErrBadConn))
		p.query(p.db, p.lane.plain)
		p.exec(p.db, p.lane.plain)
		p.say("open %d", p.db.Stats().OpenConnections)
	}},
	{"bad pinned connection", func(p *play) {
		p.srv.inject(p.lane.one, failAfter(driver.ErrBadConn))
		p.query(p.conn, p.lane.one, 7)
		p.query(p.conn, p.lane.one, 7)
		p.say("open %d", p.db.Stats().OpenConnections)
	}},
	{"the session dies", func(p *play) {
		p.srv.inject(p.lane.plain, dies, nil, dies)
		p.query(p.db, p.lane.plain)
		p.prepared(p.db, p.lane.plain)
		p.say("open %d", p.db.Stats().OpenConnections)
	}},
	{"context has ended", func(p *play) {
		ctx, cancel := context.WithCancel(p.t.Context())
		cancel()
		_, err := p.db.QueryContext(ctx, p.lane.plain)
		p.err("query", err)
		_, err = p.conn.QueryContext(ctx, p.lane.one, 7)
		p.err("query", err)
		_, err = p.conn.ExecContext(ctx, p.lane.one, 7)
		p.err("exec", err)
		st, err := p.conn.PrepareContext(ctx, p.lane.one)
		if p.err("prepare", err); err == nil {
			p.err("close", st.Close())
		}
		st, err = p.conn.PrepareContext(p.t.Context(), p.lane.one)
		p.err("prepare", err)
		_, err = st.QueryContext(ctx, 7)
		p.err("query", err)
		_, err = st.ExecContext(ctx, 7)
		p.err("exec", err)
		p.err("close", st.Close())
	}},
	{"context ends during a call", func(p *play) {
		p.srv.inject(p.lane.one, hangs(true), hangs(false))
		for range 2 {
			ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
			_, err := p.conn.QueryContext(ctx, p.lane.one, 7)
			p.say("deadline %v", errors.Is(err, context.DeadlineExceeded))
			cancel()
		}
	}},
	{"context ends while rows are read", func(p *play) {
		ctx, cancel := context.WithCancel(p.t.Context())
		rows, err := p.conn.QueryContext(ctx, p.lane.one, 7)
		p.err("query", err)
		cancel()
		synctest.Wait()
		p.say("next %v", rows.Next())
		p.err("rows", rows.Err())
		p.err("close", rows.Close())
	}},
	{"panic", func(p *play) {
		p.srv.lenient = true // database/sql never gives back the connection of a call that panicked
		p.srv.inject(p.lane.plain, panics("the driver's own"))
		p.query(p.db, p.lane.plain)
	}},
	{"lifetime", func(p *play) {
		p.db.SetConnMaxLifetime(time.Minute)
		p.query(p.db, p.lane.plain)
		time.Sleep(2 * time.Minute) // on the bubble's clock
		p.query(p.db, p.lane.plain)
		p.say("open %d", p.db.Stats().OpenConnections)
	}},
	{"the driver says invalid", func(p *play) {
		p.query(p.db, p.lane.plain)
		p.srv.invalid.Store(true)
		p.query(p.db, p.lane.plain)
		p.say("open %d", p.db.Stats().OpenConnections)
		p.srv.invalid.Store(false)
		p.query(p.db, p.lane.plain)
	}},
}

// pings says whether the fake's own connection has a Ping: the guarded one always does.
func (p *play) pings() bool {
	return slices.ContainsFunc(p.srv.allCalls(), func(c string) bool { return strings.HasSuffix(c, "Conn.Ping") })
}
