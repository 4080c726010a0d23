package jobs_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
)

// counting notes what is sent through the connections of another connector.
type counting struct {
	driver.Connector
	sent *statements
}

// statements are texts, in the order in which they were sent.
type statements struct {
	mu    sync.Mutex
	texts []string
}

func (s *statements) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, text)
}

// taken returns the texts since the last call.
func (s *statements) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts := s.texts
	s.texts = nil
	return texts
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
	sent *statements
}

// Raw leads the adapters to the driver's own connection.
func (c countingConn) Raw() driver.Conn { return c.Conn }

func (c countingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.sent.add(query)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c countingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.sent.add(query)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c countingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.sent.add("BEGIN")
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
		var sent statements
		r := replicaOf(sql.OpenDB(counting{c, &sent}), isPostgres(s))
		defer r.close()
		other := open(t, s)
		if err := r.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		warm, err := r.locker.TryAcquire(t.Context(), sqllock.Name("another lock keeps the locker's connection open"))
		if err != nil {
			t.Fatal(err)
		}
		defer warm.Release()
		cost := func(what string, limit int, f func()) {
			sent.taken()
			f()
			texts := sent.taken()
			if len(texts) > limit {
				t.Errorf("%s cost %d statements, want at most %d:\n%s", what, len(texts), limit, strings.Join(texts, "\n"))
			}
			t.Logf("%s: %d statements", what, len(texts))
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
