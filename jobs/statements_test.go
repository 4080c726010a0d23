package jobs_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
)

// counting counts what is sent through the connections of another connector.
type counting struct {
	driver.Connector
	sent *atomic.Int64
}

func (c counting) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countingConn{conn, c.sent}, nil
}

type countingConn struct {
	driver.Conn
	sent *atomic.Int64
}

// Raw leads the adapters to the driver's own connection.
func (c countingConn) Raw() driver.Conn { return c.Conn }

func (c countingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.sent.Add(1)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c countingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.sent.Add(1)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c countingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.sent.Add(1)
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c countingConn) CheckNamedValue(v *driver.NamedValue) error {
	return c.Conn.(driver.NamedValueChecker).CheckNamedValue(v)
}

// The promise of Do: 1 statement where the slot is done, 2 where the lock is held elsewhere, 5 and the job where it runs.
func TestStatements(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		dsn := s.DSN()
		if !isPostgres(s) {
			dsn += "?interpolateParams=true" // otherwise each is prepared, which is not counted, and sent again
		}
		c, err := connector(dsn, isPostgres(s))
		if err != nil {
			t.Fatal(err)
		}
		var sent atomic.Int64
		r := replicaOf(sql.OpenDB(counting{c, &sent}), isPostgres(s))
		defer r.close()
		other := open(t, s)
		if err := r.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		cost := func(what string, limit int64, f func()) {
			before := sent.Load()
			if f(); sent.Load()-before > limit {
				t.Errorf("%s cost %d statements, want at most %d", what, sent.Load()-before, limit)
			}
			t.Logf("%s: %d statements", what, sent.Load()-before)
		}
		run := func(_ context.Context, run *jobs.Run) error {
			if run.Attempt == 1 {
				return errors.New("first")
			}
			return nil
		}
		lose := func() { r.do(t, "j", slot0, jobs.HeldElsewhere, done) }
		other.do(t, "j", slot0, jobs.Ran, func(context.Context, *jobs.Run) error { cost("held elsewhere", 2, lose); return nil })
		cost("done", 1, func() { r.do(t, "j", slot0, jobs.AlreadySucceeded, done) })
		cost("won", 5, func() { _, _ = r.Do(t.Context(), "k", slot0, run) })
		cost("won anew", 5, func() { r.do(t, "k", slot0, jobs.Ran, run) })
		cost("claimed", 1, func() { _, _ = r.Claim(t.Context(), "c", slot0) })
		cost("nothing left behind", 1, func() { _, _ = r.Recover(t.Context(), "k", run) })
	})
}
