package peers

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqllock/sqllock"
)

// withPgx runs f on pgx's own connection. Without the guard, the assertion works without Unwrap, and with it, too.
func withPgx(d *diary, db *sql.DB, f func(conn *pgx.Conn) error) {
	conn, err := db.Conn(d.ctx)
	d.must(err)
	d.saw("raw", conn.Raw(func(driverConn any) error {
		return f(sqllock.Unwrap(driverConn).(*stdlib.Conn).Conn())
	}))
	d.saw("close", conn.Close())
}

func TestPgxCopyFrom(t *testing.T) {
	sameUnwrapped(t, func(d *diary, db *sql.DB) {
		d.exec(db, "create table t (id int, name text)")
		withPgx(d, db, func(conn *pgx.Conn) error {
			rows := [][]any{{1, "a"}, {2, "b"}, {3, nil}}
			n, err := conn.CopyFrom(d.ctx, pgx.Identifier{"t"}, []string{"id", "name"}, pgx.CopyFromRows(rows))
			d.saw("copied", err, n)
			return err
		})
		d.query(db, "select * from t order by id")
	})
}

func TestPgxBatch(t *testing.T) {
	sameUnwrapped(t, func(d *diary, db *sql.DB) {
		d.exec(db, "create table t (id int)")
		withPgx(d, db, func(conn *pgx.Conn) error {
			batch := &pgx.Batch{}
			batch.Queue("insert into t select generate_series(1, $1::int)", 5)
			batch.Queue("select count(*) from t").QueryRow(func(row pgx.Row) error {
				var n int
				err := row.Scan(&n)
				d.saw("counted", err, n)
				return err
			})
			return conn.SendBatch(d.ctx, batch).Close()
		})
	})
}

func TestPgxNotifications(t *testing.T) {
	sameUnwrapped(t, func(d *diary, db *sql.DB) {
		withPgx(d, db, func(conn *pgx.Conn) error {
			if _, err := conn.Exec(d.ctx, "listen news"); err != nil {
				return err
			}
			d.exec(db, "select pg_notify('news', 'hello')") // from another connection
			n, err := conn.WaitForNotification(d.ctx)
			if err == nil {
				d.saw("notified", nil, n.Channel, n.Payload)
			}
			return err
		})
	})
}

// An error from Raw reaches the caller, and the connection stays in the pool.
func TestPgxRawError(t *testing.T) {
	sameUnwrapped(t, func(d *diary, db *sql.DB) {
		withPgx(d, db, func(conn *pgx.Conn) error {
			_, err := conn.Exec(d.ctx, "select 1/0")
			return err
		})
	})
}

// loud replaces the text: what it will send cannot be read from the query.
type loud struct{}

func (loud) RewriteQuery(_ context.Context, _ *pgx.Conn, sql string, _ []any) (string, []any, error) {
	return "select upper('" + sql + "')", nil, nil
}

func TestPgxQueryRewriter(t *testing.T) {
	sameUnwrapped(t, func(d *diary, db *sql.DB) {
		d.query(db, "hello", loud{})
	})
}

// openDB is sql.OpenDB or sqllock.OpenDB.
func openDB(driverName string, c driver.Connector) *sql.DB {
	if driverName == onPostgres.guarded {
		return sqllock.OpenDB(c)
	}
	return sql.OpenDB(c)
}

// Hooks of a connector run as often as without the guard.
func TestPgxConnectorHooks(t *testing.T) {
	var hooks []string
	open := func(driver, dsn string) (*sql.DB, error) {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		hooks = nil
		return openDB(driver, stdlib.GetConnector(*config,
			stdlib.OptionBeforeConnect(func(context.Context, *pgx.ConnConfig) error { hooks = append(hooks, "before"); return nil }),
			stdlib.OptionAfterConnect(func(context.Context, *pgx.Conn) error { hooks = append(hooks, "after"); return nil }),
			stdlib.OptionResetSession(func(context.Context, *pgx.Conn) error { hooks = append(hooks, "reset"); return nil }),
		)), nil
	}
	sameWith(t, onPostgres, "", open, nothing, func(d *diary, db *sql.DB) {
		for range 3 {
			d.query(db, "select 1")
		}
		d.saw("hooks", nil, hooks)
	})
}

// A pgxpool.Pool below database/sql gets its connections back.
func TestPgxFromPool(t *testing.T) {
	var pool *pgxpool.Pool
	open := func(driver, dsn string) (db *sql.DB, err error) {
		if pool, err = pgxpool.New(t.Context(), dsn); err != nil {
			return nil, err
		}
		t.Cleanup(pool.Close)
		db = openDB(driver, stdlib.GetPoolConnector(pool))
		db.SetMaxIdleConns(0) // as stdlib.OpenDBFromPool does
		return db, nil
	}
	sameWith(t, onPostgres, "", open, nothing, func(d *diary, db *sql.DB) {
		for range 3 {
			d.query(db, "select $1::int", 1)
		}
		d.saw("pool", nil, pool.Stat().TotalConns(), pool.Stat().AcquiredConns(), pool.Stat().AcquireCount())
	})
}
