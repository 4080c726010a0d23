package peers

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sqllock/sqllock"
)

// sameOnBoth is same on MySQL and on MariaDB.
func sameOnBoth(t *testing.T, params string, run program) {
	t.Helper()
	same(t, onMySQL, params, run)
	same(t, onMariaDB, params, run)
}

// values are what most options change the reading of.
func values(d *diary, db *sql.DB) {
	d.exec(db, "create table t (id int auto_increment primary key, d date, at datetime(6), s varchar(20), b blob, n decimal(10,2), u bigint unsigned, j json)")
	at := time.Date(2026, 3, 29, 1, 2, 3, 456789000, time.UTC)
	d.exec(db, "insert into t (d, at, s, b, n, u, j) values (?, ?, ?, ?, ?, ?, ?)",
		at, at, "it's \\ \"text\"", []byte{0, 1, 255}, 1.25, uint64(math.MaxUint64), json.RawMessage(`{"a": 1}`))
	d.exec(db, "insert into t (s) values (?)", nil)
	d.exec(db, "update t set s = s where id = ?", 1)
	d.query(db, "select * from t order by id")
	d.query(db, "select * from t where id = ? or s = ?", 1, "x")
	d.query(db, "select sum(n), count(*), max(at) from t")
}

func TestMySQLOptions(t *testing.T) {
	for _, params := range []string{
		"", "parseTime=true", "parseTime=true&loc=Europe%2FBerlin", "parseTime=true&timeTruncate=1ms", "interpolateParams=true",
		"interpolateParams=true&parseTime=true&loc=Europe%2FBerlin", "clientFoundRows=true", "columnsWithAlias=true",
		"charset=utf8mb4&collation=utf8mb4_bin", "compress=true", "maxAllowedPacket=0", "checkConnLiveness=false",
		"sql_mode=%27ANSI_QUOTES%27&time_zone=%27%2B05%3A00%27", "rejectReadOnly=true", "readTimeout=5s&writeTimeout=5s&timeout=5s",
	} {
		t.Run(params, func(t *testing.T) { sameOnBoth(t, params, values) })
	}
}

func TestMySQLMultiStatements(t *testing.T) {
	sameOnBoth(t, "multiStatements=true", func(d *diary, db *sql.DB) {
		d.exec(db, "create table t (id int auto_increment primary key, n int); insert into t (n) values (1), (2); update t set n = 3")
		d.query(db, "select 1; select 'a', 'b'; select n from t")
		d.query(db, "select 1; selec; select 2") // fails in the middle
		conn, err := db.Conn(d.ctx)
		d.must(err)
		d.saw("all results", conn.Raw(func(driverConn any) error {
			res, err := driverConn.(driver.ExecerContext).ExecContext(d.ctx, "update t set n = 4; insert into t (n) values (5)", nil)
			if err == nil {
				d.saw("  rows", nil, res.(mysql.Result).AllRowsAffected(), res.(mysql.Result).AllLastInsertIds())
			}
			return err
		}))
		d.saw("close", conn.Close())
	})
	sameOnBoth(t, "", func(d *diary, db *sql.DB) {
		_, err := db.Exec("select 1; select 2")
		var no *mysql.MySQLError
		d.saw("several statements", nil, errors.As(err, &no))
	})
}

func TestMySQLPrepared(t *testing.T) {
	sameOnBoth(t, "", func(d *diary, db *sql.DB) {
		d.exec(db, "create table t (id int primary key)")
		insert, err := db.Prepare("insert into t values (?)")
		d.must(err)
		for _, id := range []any{1, 2, 2, "no number"} {
			res, err := insert.Exec(id)
			d.result("insert", res, err)
		}
		d.saw("close", insert.Close())
		tx, err := db.BeginTx(d.ctx, nil)
		d.must(err)
		stmt, err := tx.Prepare("select id from t where id > ?")
		d.must(err)
		rows, err := stmt.Query(0)
		d.rows("select", rows, err)
		rows, err = stmt.Query()
		d.rows("an argument is missing", rows, err)
		d.saw("commit", tx.Commit())
		_, err = db.Prepare("selec")
		d.saw("syntax error", err)
	})
}

func TestMySQLTransactions(t *testing.T) {
	sameOnBoth(t, "", func(d *diary, db *sql.DB) {
		d.exec(db, "create table t (id int primary key)")
		for level := sql.LevelDefault; level <= sql.LevelLinearizable; level++ {
			tx, err := db.BeginTx(d.ctx, &sql.TxOptions{Isolation: level})
			d.saw(level.String(), err)
			if err == nil {
				d.exec(tx, "insert into t values (?)", int(level))
				d.saw("commit", tx.Commit())
			}
		}
		tx, err := db.BeginTx(d.ctx, &sql.TxOptions{ReadOnly: true})
		d.saw("read only", err)
		d.exec(tx, "insert into t values (100)")
		d.saw("commit", tx.Commit())
		d.saw("again", tx.Rollback())
		tx, err = db.Begin()
		d.saw("begin", err)
		for _, query := range []string{"savepoint a", "insert into t values (99)", "rollback to savepoint a", "insert into t values (200)", "release savepoint a"} {
			d.exec(tx, query)
		}
		d.saw("rollback", tx.Rollback())
		d.query(db, "select id from t order by id")
	})
}

// The isolation level reaches the server: two transactions see what it lets them see.
func TestMySQLIsolation(t *testing.T) {
	sameOnBoth(t, "", func(d *diary, db *sql.DB) {
		d.exec(db, "create table t (id int primary key)")
		for _, level := range []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead} {
			reader, err := db.BeginTx(d.ctx, &sql.TxOptions{Isolation: level})
			d.must(err)
			d.query(reader, "select count(*) from t")
			writer, err := db.Begin()
			d.must(err)
			d.exec(writer, "insert into t values (?)", int(level))
			d.query(reader, "select count(*) from t")
			d.saw("commit", writer.Commit())
			d.query(reader, "select count(*) from t")
			d.saw("commit", reader.Commit())
		}
	})
}

func TestMySQLLoadData(t *testing.T) {
	for _, p := range []peer{onMySQL, onMariaDB} {
		allowLocalInfile(t, p.server(t).Outside(t))
		mysql.RegisterReaderHandler("people", func() io.Reader { return strings.NewReader("1\tAda\n2\tGrace\n3\t\\N\n") })
		t.Cleanup(func() { mysql.DeregisterReaderHandler("people") })
		same(t, p, "", func(d *diary, db *sql.DB) {
			d.exec(db, "create table t (id int primary key, name varchar(20))")
			d.exec(db, "load data local infile 'Reader::people' into table t")
			d.exec(db, "load data local infile 'Reader::nobody' into table t")
			d.query(db, "select * from t order by id")
		})
	}
}

// allowLocalInfile lets the server ask clients for files until t ends.
func allowLocalInfile(t *testing.T, outside *sql.DB) {
	t.Helper()
	var before bool
	if err := outside.QueryRow("select @@global.local_infile").Scan(&before); err != nil {
		t.Fatal(err)
	}
	execAll(t, outside, "set global local_infile = 1")
	t.Cleanup(func() { outside.Exec("set global local_infile = ?", before) })
}

func TestMySQLErrors(t *testing.T) {
	sameOnBoth(t, "", func(d *diary, db *sql.DB) {
		d.exec(db, "create table t (id int primary key)")
		d.exec(db, "insert into t values (1)")
		_, err := db.Exec("insert into t values (1)")
		d.saw("duplicate", err, errors.Is(err, &mysql.MySQLError{Number: 1062}))
		d.query(db, "select :a", sql.Named("a", 1))
		d.query(db, "select ?", struct{}{})
		d.query(db, "select ?", 1, 2)
		d.saw("no row", db.QueryRow("select 1 from dual where false").Scan(new(int)))
		d.saw("null", db.QueryRow("select null").Scan(new(int)))
		d.saw("ping", db.PingContext(d.ctx))
	})
}

func TestMySQLContexts(t *testing.T) {
	sameOnBoth(t, "", cancelled("select connection_id()",
		"select count(*) > 0 from information_schema.processlist where id = ? and info = 'select sleep(20)'", "select sleep(20)"))
}

func TestMySQLCancelledTransaction(t *testing.T) {
	sameOnBoth(t, "", cancelledTransaction)
}

func TestMySQLRowsClosedEarly(t *testing.T) {
	sameOnBoth(t, "", closedEarly)
}

// A configuration beyond a DSN goes into a connector.
func TestMySQLConnector(t *testing.T) {
	for _, p := range []peer{onMySQL, onMariaDB} {
		connects := 0
		open := func(driver, dsn string) (*sql.DB, error) {
			connects = 0
			config, err := mysql.ParseDSN(dsn)
			if err != nil {
				return nil, err
			}
			err = config.Apply(mysql.BeforeConnect(func(context.Context, *mysql.Config) error { connects++; return nil }))
			if err != nil {
				return nil, err
			}
			c, err := mysql.NewConnector(config)
			if driver == p.guarded {
				return sqllock.OpenDB(c), err
			}
			return sql.OpenDB(c), err
		}
		sameWith(t, p, "", open, nothing, func(d *diary, db *sql.DB) {
			for range 3 {
				d.query(db, "select 1")
			}
			d.saw("connects", nil, connects)
		})
	}
}
