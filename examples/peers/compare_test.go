package peers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/mysqllock"
	"github.com/sqllock/sqllock/pgxlock"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// peer is a driver on a kind of server.
type peer struct {
	name          string
	server        func(testing.TB) *testbed.Server
	bare, guarded string // the driver's names
}

var (
	onPostgres = peer{"PostgreSQL", testbed.Postgres, "pgx", pgxlock.DriverName}
	onMySQL    = peer{"MySQL", testbed.MySQL, "mysql", mysqllock.DriverName}
	onMariaDB  = peer{"MariaDB", testbed.MariaDB, "mysql", mysqllock.DriverName}
)

// A program uses a pool and notes what it sees.
type program func(d *diary, db *sql.DB)

// nothing is what the guard must have done where nothing concerns locks.
var nothing = sqllock.Stats{}

// same runs a program bare and guarded and compares what it saw. params are the DSN's: "a=b&c=d". The
// guard must have done nothing.
func same(t *testing.T, p peer, params string, run program) {
	t.Helper()
	sameWith(t, p, params, sql.Open, nothing, run)
}

// sameUnwrapped is same for a program that uses pgx's own connection once: the guard then asks once what it holds.
func sameUnwrapped(t *testing.T, run program) {
	t.Helper()
	sameWith(t, onPostgres, "", sql.Open, sqllock.Stats{Probes: 1}, run)
}

// sameWith is same with pools that are opened in another way, and with what the guard must have done.
func sameWith(t *testing.T, p peer, params string, open func(driver, dsn string) (*sql.DB, error), want sqllock.Stats, run program) {
	t.Helper()
	t.Run(p.name, func(t *testing.T) {
		dsn, empty := p.database(t)
		empty()
		bare, _ := observe(t, with(dsn, params), p.bare, open, run)
		empty()
		guarded, db := observe(t, with(dsn, params), p.guarded, open, run)
		t.Log("\n" + strings.Join(bare, "\n"))
		diff(t, bare, guarded)
		got, err := sqllock.ReadStats(db)
		if err != nil || got != want {
			t.Errorf("the guard did %+v, want %+v (error: %v)", got, want, err)
		}
	})
}

// database returns a database for both runs, which empty empties before each. It is one, because errors name it.
func (p peer) database(t *testing.T) (dsn string, empty func()) {
	t.Helper()
	s := p.server(t)
	if p.bare == "pgx" { // a schema is made faster than a database
		outside := s.Outside(t)
		t.Cleanup(func() { outside.Exec("drop schema if exists peers cascade") })
		return with(s.DSN(), "search_path=peers"), func() {
			execAll(t, outside, "drop schema if exists peers cascade", "create schema peers")
		}
	}
	s = s.NewDatabase(t)
	config, err := mysql.ParseDSN(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	outside := s.Outside(t)
	return s.DSN(), func() { execAll(t, outside, "drop database "+config.DBName, "create database "+config.DBName) }
}

func execAll(t *testing.T, db *sql.DB, queries ...string) {
	t.Helper()
	for _, query := range queries {
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
}

func with(dsn, params string) string {
	switch {
	case params == "":
		return dsn
	case strings.Contains(dsn, "?"):
		return dsn + "&" + params
	default:
		return dsn + "?" + params
	}
}

// observe runs a program on a pool of its own.
func observe(t *testing.T, dsn, driver string, open func(driver, dsn string) (*sql.DB, error), run program) (lines []string, db *sql.DB) {
	t.Helper()
	db, err := open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	d := &diary{t: t, ctx: t.Context()}
	run(d, db)
	d.saw("connections", nil, db.Stats().OpenConnections, db.Stats().InUse)
	return d.lines, db
}

func diff(t *testing.T, bare, guarded []string) {
	t.Helper()
	for i := range max(len(bare), len(guarded)) {
		if b, g := line(bare, i), line(guarded, i); b != g {
			t.Errorf("bare:    %s\nguarded: %s", b, g)
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// diary is what a program saw, in order.
type diary struct {
	t     *testing.T
	ctx   context.Context
	lines []string
}

// saw notes an error and values.
func (d *diary) saw(what string, err error, values ...any) {
	text := what + ":"
	for _, v := range values {
		text += " " + show(v)
	}
	d.lines = append(d.lines, text+showError(err))
}

// must ends the test where the program could not go on, bare or guarded.
func (d *diary) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func show(v any) string {
	switch v := v.(type) {
	case []byte:
		return fmt.Sprintf("bytes(%q)", v)
	case []any:
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = show(v[i])
		}
		return fmt.Sprint(texts)
	case reflect.Type:
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%T(%+v)", v, v)
}

// showError notes an error, the types below it, and what errors.Is and errors.As find.
func showError(err error) string {
	if err == nil {
		return ""
	}
	var types []string
	for e := err; e != nil; e = errors.Unwrap(e) {
		types = append(types, fmt.Sprintf("%T", e))
	}
	known := []error{sql.ErrNoRows, sql.ErrTxDone, sql.ErrConnDone, context.Canceled, context.DeadlineExceeded}
	is := slices.DeleteFunc(known, func(k error) bool { return !errors.Is(err, k) })
	return fmt.Sprintf(" ERROR %v %v is %v", err, types, is)
}

// doer is what *sql.DB, *sql.Conn and *sql.Tx have in common.
type doer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// exec notes a statement's result.
func (d *diary) exec(on doer, query string, args ...any) {
	res, err := on.ExecContext(d.ctx, query, args...)
	d.result(query, res, err)
}

func (d *diary) result(what string, res sql.Result, err error) {
	d.saw(what, err)
	if err != nil {
		return
	}
	n, err := res.RowsAffected()
	d.saw("  rows affected", err, n)
	id, err := res.LastInsertId()
	d.saw("  last id", err, id)
}

// query notes a query's columns and rows, of all its result sets.
func (d *diary) query(on doer, query string, args ...any) {
	rows, err := on.QueryContext(d.ctx, query, args...)
	d.rows(query, rows, err)
}

func (d *diary) rows(what string, rows *sql.Rows, err error) {
	d.saw(what, err)
	if err != nil {
		return
	}
	for ok := true; ok; ok = rows.NextResultSet() {
		d.resultSet(rows)
	}
	d.saw("  end", rows.Err())
	d.saw("  close", rows.Close())
}

func (d *diary) resultSet(rows *sql.Rows) {
	types, err := rows.ColumnTypes()
	d.saw("  columns", err)
	for _, c := range types {
		length, hasLength := c.Length()
		precision, scale, hasScale := c.DecimalSize()
		nullable, hasNullable := c.Nullable()
		d.saw("    "+c.Name(), nil, c.DatabaseTypeName(), c.ScanType(), length, hasLength, precision, scale, hasScale, nullable, hasNullable)
	}
	for rows.Next() {
		values := make([]any, len(types))
		dest := make([]any, len(types))
		for i := range values {
			dest[i] = &values[i]
		}
		d.saw("  row", rows.Scan(dest...), values...)
	}
}

// scan notes a query's first row, as the program's own types.
func (d *diary) scan(on doer, dest []any, query string, args ...any) {
	rows, err := on.QueryContext(d.ctx, query, args...)
	if err != nil {
		d.saw(query, err)
		return
	}
	defer rows.Close()
	if !rows.Next() {
		d.saw(query, rows.Err(), "no row")
		return
	}
	err = rows.Scan(dest...)
	values := make([]any, len(dest))
	for i := range dest {
		values[i] = reflect.ValueOf(dest[i]).Elem().Interface()
	}
	d.saw(query, err, values...)
}
