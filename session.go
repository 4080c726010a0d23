package sqllock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// What the guard itself sends, on doubt or discard only. Every name is qualified: a user's own table or function
// of the same name, in front of pg_catalog, must not answer.
const (
	pgProbe = `SELECT classid::pg_catalog.int8, objid::pg_catalog.int8, objsubid::pg_catalog.int8, mode::pg_catalog.text` +
		` FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory'` +
		` AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND granted LIMIT 100`
	pgReset = `SELECT pg_catalog.pg_advisory_unlock_all()`

	// mysqlProbe releases what it counts: a session that has to be asked is not going to keep its locks.
	mysqlProbe  = `SELECT RELEASE_ALL_LOCKS()`
	mysqlUnlock = `UNLOCK TABLES`
	rollback    = `ROLLBACK`
)

// ask returns the session locks that the server says this session holds: advisory or named locks only,
// which are the ones that both servers can be asked for.
func (c *conn) ask(ctx context.Context) ([]lockKey, error) {
	if c.pool.cfg.dialect == DialectMySQL {
		return c.askMySQL(ctx)
	}
	rows, err := c.rows(ctx, pgProbe, 4)
	if err != nil {
		return nil, err
	}
	var keys []lockKey
	for _, r := range rows {
		keys = append(keys, pgKey(r))
	}
	return keys, nil
}

func (c *conn) askMySQL(ctx context.Context) ([]lockKey, error) {
	rows, err := c.rows(ctx, mysqlProbe, 1)
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 {
		return nil, fmt.Errorf("sqllock: %s answered %d rows", mysqlProbe, len(rows))
	}
	if n := asInt(rows[0][0]); n != 0 {
		return []lockKey{{kind: kindNamed, name: fmt.Sprintf("(%d not seen by name)", n)}}, nil
	}
	return nil, nil
}

// pgKey reads a row of pg_locks: objsubid 1 is a bigint in two halves, 2 is two ints.
func pgKey(r []driver.Value) lockKey {
	hi, lo := asInt(r[0]), asInt(r[1])
	k := lockKey{kind: kindAdvisory, shared: asText(r[3]) == "ShareLock"}
	if asInt(r[2]) == 1 {
		k.name = strconv.FormatInt(hi<<32|lo, 10)
	} else {
		k.name = fmt.Sprintf("%d,%d", int32(hi), int32(lo))
	}
	return k
}

// resetLocks releases everything that the session holds and returns nil only if the server has confirmed it.
func (c *conn) resetLocks(ctx context.Context) error {
	if c.table.holdsOther() {
		return errors.New("sqllock: no statement releases this and proves it")
	}
	if c.pool.cfg.dialect == DialectMySQL {
		if err := c.send(ctx, mysqlUnlock); err != nil {
			return err
		}
		if _, err := c.rows(ctx, mysqlProbe, 1); err != nil {
			return err
		}
	} else if err := c.send(ctx, pgReset); err != nil {
		return err
	}
	c.table.reset()
	return nil
}

// endSession makes sure that the session is gone. It first releases what it can, because others then get the
// lock a round trip later, and because a pool below driver.Conn may keep what it is told to close. All of that
// is best effort: the end of the session is what counts.
func (c *conn) endSession(ctx context.Context) error {
	if !c.isDead() {
		_ = c.send(ctx, rollback)
		if c.pool.cfg.dialect == DialectMySQL {
			_ = c.send(ctx, mysqlUnlock)
			_, _ = c.rows(ctx, mysqlProbe, 1)
		} else {
			_ = c.send(ctx, pgReset)
		}
	}
	if c.native.Terminate != nil {
		_ = c.native.Terminate(ctx)
	}
	return c.base.Conn.Close()
}

// send runs a statement of the guard's own on the driver's own connection.
func (c *conn) send(ctx context.Context, query string) error {
	_, err := c.base.ExecContext(ctx, query, c.native.PlainArgs)
	if !errors.Is(err, driver.ErrSkip) {
		return err
	}
	_, err = c.rows(ctx, query, 0)
	return err
}

// rows runs a query of the guard's own and returns its rows, each of which has width columns.
func (c *conn) rows(ctx context.Context, query string, width int) ([][]driver.Value, error) {
	rows, err := c.base.QueryContext(ctx, query, c.native.PlainArgs)
	if errors.Is(err, driver.ErrSkip) {
		return c.preparedRows(ctx, query, width)
	}
	if err != nil {
		return nil, err
	}
	return readRows(rows, width)
}

func (c *conn) preparedRows(ctx context.Context, query string, width int) ([][]driver.Value, error) {
	stmt, err := c.base.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer stmt.Close()
	var rows driver.Rows
	if q, ok := stmt.(driver.StmtQueryContext); ok {
		rows, err = q.QueryContext(ctx, nil)
	} else {
		rows, err = stmt.Query(nil) //nolint:staticcheck // drivers that have nothing newer
	}
	if err != nil {
		return nil, err
	}
	return readRows(rows, width)
}

func readRows(rows driver.Rows, width int) (all [][]driver.Value, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	if n := len(rows.Columns()); width > 0 && n != width {
		return nil, fmt.Errorf("sqllock: the server answered %d columns instead of %d", n, width)
	}
	for {
		row := make([]driver.Value, len(rows.Columns()))
		switch err := rows.Next(row); {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, row)
	}
}

// asInt reads an integer that a driver returns as a number or as text.
func asInt(v driver.Value) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case uint64:
		return int64(v)
	}
	n, _ := strconv.ParseInt(asText(v), 10, 64)
	return n
}

func asText(v driver.Value) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}
