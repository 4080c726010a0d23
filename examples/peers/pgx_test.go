package peers

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
)

func TestPgxValues(t *testing.T) {
	same(t, onPostgres, "", func(d *diary, db *sql.DB) {
		d.query(db, `select 1::int2, 2::int4, 3::int8, 1.5::float8, 2.25::numeric(10,4), 'text', 'v'::varchar(7), true, null::int`)
		d.query(db, `select '\xdeadbeef'::bytea, '{"a": 1}'::jsonb, '2026-03-29'::date, '2026-03-29 01:02:03+00'::timestamptz at time zone 'utc',
			'{1,2}'::int[], '10.0.0.1'::inet, '00000000-0000-0000-0000-000000000001'::uuid, int4range(1, 5)`)
		d.query(db, "select n from generate_series($1::int, $2) n", 1, 5)
		d.query(db, "select $1::text, $2::bytea, $3::timestamptz = $3, $4::bool, $5::float8", "x", []byte{1, 2}, time.Unix(1, 0), true, 1.5)
		d.query(db, "select $1::text where false", "nobody")
		d.query(db, "select $1::int", "not a number")
		d.query(db, "select $1::int, $2::int", 1) // an argument is missing
		d.exec(db, "create table t (id serial primary key, name text not null unique, at timestamptz)")
		d.exec(db, "insert into t (name) values ($1), ($2)", "a", "b")
		d.exec(db, "update t set at = $1 where id <= $2", time.Unix(1, 0), 2)
		d.exec(db, "create table u (); create table v ()") // several statements, without arguments
		d.query(db, "insert into t (name) values ($1) returning id, name", "c")
		d.query(db, "select id, name, extract(epoch from at) from t order by id")
	})
}

func TestPgxTypes(t *testing.T) {
	same(t, onPostgres, "", func(d *diary, db *sql.DB) {
		m := pgtype.NewMap()
		var ints []int64
		var texts pgtype.FlatArray[string]
		var span pgtype.Range[pgtype.Int4]
		d.saw("arrays", db.QueryRow("select '{1,2,3}'::bigint[], '{a,b}'::text[]").Scan(m.SQLScanner(&ints), m.SQLScanner(&texts)), ints, texts)
		d.saw("range", db.QueryRow("select int4range(1, 5)").Scan(m.SQLScanner(&span)), span)
		d.scan(db, []any{new(pgtype.Int4), new(sql.NullString), new(*time.Time)}, "select 7, null::text, null::timestamptz")
		d.query(db, "select array_length($1::int[], 1), $2::uuid", []int32{1, 2, 3}, [16]byte{15: 1})
		d.query(db, "select $1::jsonb", map[string]int{"a": 1})
	})
}

func TestPgxPrepared(t *testing.T) {
	same(t, onPostgres, "", func(d *diary, db *sql.DB) {
		stmt, err := db.Prepare("select $1::int + 1")
		d.must(err)
		for i := range 3 {
			rows, err := stmt.Query(i)
			d.rows("prepared", rows, err)
		}
		tx, err := db.BeginTx(d.ctx, nil)
		d.must(err)
		rows, err := tx.Stmt(stmt).Query(41)
		d.rows("in a transaction", rows, err)
		insert, err := tx.Prepare("create temp table t (id int)")
		d.must(err)
		res, err := insert.Exec()
		d.result("prepared in a transaction", res, err)
		d.saw("close", insert.Close())
		d.saw("rollback", tx.Rollback())
		rows, err = stmt.Query("no number")
		d.rows("wrong argument", rows, err)
		d.saw("close", stmt.Close())
		_, err = db.Prepare("selec")
		d.saw("syntax error", err)
	})
}

func TestPgxTransactions(t *testing.T) {
	same(t, onPostgres, "", func(d *diary, db *sql.DB) {
		d.exec(db, "create table t (id int primary key)")
		for level := sql.LevelDefault; level <= sql.LevelLinearizable; level++ {
			tx, err := db.BeginTx(d.ctx, &sql.TxOptions{Isolation: level})
			d.saw(level.String(), err)
			if err == nil {
				d.query(tx, "show transaction_isolation")
				d.exec(tx, "insert into t values ($1)", int(level))
				d.saw("commit", tx.Commit())
			}
		}
		tx, err := db.BeginTx(d.ctx, &sql.TxOptions{ReadOnly: true})
		d.saw("read only", err)
		d.exec(tx, "insert into t values (100)")
		d.query(tx, "select 1") // the transaction has failed
		d.saw("commit", tx.Commit())
		d.saw("again", tx.Rollback())
		tx, err = db.Begin()
		d.saw("begin", err)
		for _, query := range []string{"savepoint a", "insert into t values (0)", "rollback to savepoint a", "insert into t values (200)", "release savepoint a"} {
			d.exec(tx, query)
		}
		d.saw("rollback", tx.Rollback())
		d.query(db, "select id from t order by id")
	})
}

func TestPgxArguments(t *testing.T) {
	same(t, onPostgres, "", func(d *diary, db *sql.DB) {
		d.query(db, "select @a::int + @b::int", pgx.NamedArgs{"a": 1, "b": 2})
		d.query(db, "select @a::int + @b::int", pgx.NamedArgs{"a": 1})
		d.query(db, "select @a::int", pgx.StrictNamedArgs{"a": 1, "b": 2})
		for _, mode := range []pgx.QueryExecMode{
			pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
			pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
		} {
			d.query(db, "select $1::int + 1, $2::text", mode, 41, mode.String())
			d.exec(db, "select 1", mode)
			d.query(db, "select @a::int", mode, pgx.NamedArgs{"a": 1})
		}
		d.query(db, "select $1::int", sql.Named("a", 1))
	})
}

func TestPgxErrors(t *testing.T) {
	same(t, onPostgres, "", func(d *diary, db *sql.DB) {
		d.exec(db, "create table t (id int primary key check (id > 0))")
		for _, query := range []string{"insert into t values (1)", "insert into t values (1)", "insert into t values (-1)", "select 1/0", "select from where"} {
			_, err := db.Exec(query)
			var pg *pgconn.PgError
			errors.As(err, &pg)
			d.saw(query, err, pg != nil && pg.Code != "")
		}
		d.query(db, "select 1/(3-n) from generate_series(1, 5) n") // fails in the middle
		d.saw("no row", db.QueryRow("select 1 where false").Scan(new(int)))
		d.saw("null", db.QueryRow("select null::int").Scan(new(int)))
		d.saw("ping", db.PingContext(d.ctx))
	})
}

// cancelled ends the context of a statement when the server is at it. id asks for the session's number, and busy
// whether the session of a number is at work.
func cancelled(id, busy, sleep string) program {
	return func(d *diary, db *sql.DB) {
		ctx, cancel := context.WithCancel(d.ctx)
		conn, err := db.Conn(d.ctx)
		d.must(err)
		var number int64
		d.must(conn.QueryRowContext(ctx, id).Scan(&number))
		result := make(chan error, 1)
		go func() {
			_, err := conn.ExecContext(ctx, sleep)
			result <- err
		}()
		for working := false; !working; {
			d.must(db.QueryRow(busy, number).Scan(&working))
		}
		cancel()
		err = <-result
		d.saw("cancelled", nil, errors.Is(err, context.Canceled))
		d.saw("close", conn.Close())
		_, err = db.ExecContext(ctx, "select 1")
		d.saw("over before", err)
		d.query(db, "select 'goes on'")
	}
}

func TestPgxContexts(t *testing.T) {
	same(t, onPostgres, "", cancelled("select pg_backend_pid()",
		"select count(*) > 0 from pg_stat_activity where pid = $1 and state = 'active' and query = 'select pg_sleep(20)'", "select pg_sleep(20)"))
}

// A transaction whose context ends is rolled back by database/sql, which then keeps or closes the connection.
func cancelledTransaction(d *diary, db *sql.DB) {
	d.exec(db, "create table t (id int primary key)")
	ctx, cancel := context.WithCancel(d.ctx)
	tx, err := db.BeginTx(ctx, nil)
	d.must(err)
	d.exec(tx, "insert into t values (1)")
	cancel()
	for db.Stats().InUse > 0 {
		runtime.Gosched()
	}
	d.saw("commit", tx.Commit())
	d.saw("open", nil, db.Stats().OpenConnections)
	d.query(db, "select * from t")
}

func TestPgxCancelledTransaction(t *testing.T) {
	same(t, onPostgres, "", cancelledTransaction)
}

// Rows that are closed early leave a connection that can be used.
func closedEarly(d *diary, db *sql.DB) {
	for range 3 {
		rows, err := db.QueryContext(d.ctx, "with recursive n (i) as (select 1 union all select i + 1 from n where i < 900) select i from n")
		d.must(err)
		d.saw("next", rows.Err(), rows.Next(), rows.Next())
		d.saw("close", rows.Close())
	}
}

func TestPgxRowsClosedEarly(t *testing.T) {
	same(t, onPostgres, "", closedEarly)
}

// A configuration beyond a DSN is registered, and its name is opened with either driver.
func TestPgxRegisteredConfig(t *testing.T) {
	open := func(driver, dsn string) (*sql.DB, error) {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		config.RuntimeParams["application_name"] = "peers"
		name := stdlib.RegisterConnConfig(config)
		t.Cleanup(func() { stdlib.UnregisterConnConfig(name) })
		return sql.Open(driver, name)
	}
	sameWith(t, onPostgres, "", open, nothing, func(d *diary, db *sql.DB) {
		d.query(db, "show application_name")
		d.query(db, "select $1::text", "x")
		d.query(db, "select count(*) from pg_prepared_statements")
	})
}
