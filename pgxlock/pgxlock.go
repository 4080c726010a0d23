// Package pgxlock registers the guarded driver "pgx-sqllock", which is pgx's "pgx" with sqllock around it:
//
//	import _ "github.com/sqllock/sqllock/pgxlock"
//
//	db, err := sql.Open("pgx-sqllock", dsn) // was: sql.Open("pgx", dsn)
//
// Importing it also tells sqllock what pgx can do beyond database/sql/driver, for every pool of pgx connections,
// whatever name it was opened under: read the transaction status without asking the server, notice that the
// session has ended, and end a session that belongs to a pgxpool.Pool.
package pgxlock

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/native"
)

// DriverName is the name under which the guarded driver is registered.
const DriverName = "pgx-sqllock"

func init() {
	native.Register(resolve)
	sql.Register(DriverName, sqllock.Wrap(stdlib.GetDefaultDriver()))
}

func resolve(c driver.Conn) (native.Abilities, bool) {
	own, ok := c.(*stdlib.Conn)
	if !ok {
		return native.Abilities{}, false
	}
	conn := own.Conn()
	return native.Abilities{
		InTransaction: func() bool { return conn.PgConn().TxStatus() != 'I' },
		Dead:          conn.IsClosed,
		Terminate:     func(ctx context.Context) error { return conn.Close(ctx) },
		Await:         func(ctx context.Context) error { return await(ctx, conn) },
		PID:           conn.PgConn().PID,
		Caches:        func() string { return caches(conn) },
		Sibling:       sibling{conn},
		PlainArgs:     []driver.NamedValue{{Ordinal: 1, Value: pgx.QueryExecModeSimpleProtocol}},
	}, true
}

// caches: through a pooler in transaction mode a prepared statement's name belongs to whoever was there first.
func caches(conn *pgx.Conn) string {
	if c := conn.Config(); c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && c.StatementCacheCapacity > 0 {
		return "default_query_exec_mode=cache_statement"
	}
	return ""
}

// sibling is a connector that is made when it is needed.
type sibling struct{ conn *pgx.Conn }

func (s sibling) Connect(ctx context.Context) (driver.Conn, error) {
	return stdlib.GetConnector(*s.conn.Config()).Connect(ctx)
}

func (s sibling) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// await reads the idle socket: the server says there why it ends a session, and that it has ended.
func await(ctx context.Context, conn *pgx.Conn) error {
	for ctx.Err() == nil {
		err := conn.PgConn().WaitForNotification(ctx)
		if err != nil && (ctx.Err() == nil || conn.IsClosed()) {
			return err
		}
	}
	return nil
}
