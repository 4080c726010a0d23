package sqllock_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	_ "github.com/sqllock/sqllock/mysqllock"
	_ "github.com/sqllock/sqllock/pgxlock"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// A stack is one driver on one kind of server.
type stack struct {
	name   string
	server func(testing.TB) *testbed.Server
	// connector returns the driver's own connector. Params are added to the DSN: "a=b&c=d".
	connector func(t testing.TB, s *testbed.Server, params string) driver.Connector
}

var (
	onPgx     = stack{"pgx", testbed.Postgres, pgxConnector}
	onPQ      = stack{"pq", testbed.Postgres, pqConnector}
	onMySQL   = stack{"MySQL", testbed.MySQL, mysqlConnector}
	onMariaDB = stack{"MariaDB", testbed.MariaDB, mysqlConnector}
)

func (k stack) postgres() bool { return k.is(onPgx) || k.is(onPQ) }

// is compares stacks, which hold functions, by their names.
func (k stack) is(other stack) bool { return k.name == other.name }

func pgxConnector(t testing.TB, s *testbed.Server, params string) driver.Connector {
	t.Helper()
	cfg, err := pgx.ParseConfig(with(s.URL(), params))
	if err != nil {
		t.Fatal(err)
	}
	return stdlib.GetConnector(*cfg)
}

func pqConnector(t testing.TB, s *testbed.Server, params string) driver.Connector {
	t.Helper()
	c, err := pq.NewConnector(with(s.URL(), params))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mysqlConnector(t testing.TB, s *testbed.Server, params string) driver.Connector {
	t.Helper()
	cfg, err := mysql.ParseDSN(with(s.DSN(), params))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = &mysql.NopLogger{} // connections that tests kill are no news
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
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

// rig is a guarded pool on a database of its own, in which table t has one row, and somebody who looks at it from outside.
type rig struct {
	*sql.DB
	t       testing.TB
	stack   stack
	server  *testbed.Server
	outside *outside
	reports *reports
}

// newRig opens a guarded pool on a fresh database of the stack's shared server. When t ends, nothing may be left held.
func newRig(t testing.TB, k stack, params string, opts ...sqllock.Option) *rig {
	t.Helper()
	return rigOn(t, k, k.server(t).NewDatabase(t), params, opts...)
}

// rigOn is newRig on a given database.
func rigOn(t testing.TB, k stack, s *testbed.Server, params string, opts ...sqllock.Option) *rig {
	t.Helper()
	o := lookAt(t, s)
	o.makeTable(t)
	return o.pool(t, k, s, params, opts...)
}

// pool opens one more guarded pool on the same database. s may be a proxy's or pooler's address for it.
func (o *outside) pool(t testing.TB, k stack, s *testbed.Server, params string, opts ...sqllock.Option) *rig {
	t.Helper()
	return o.poolOf(t, k, s, k.connector(t, s, params), opts...)
}

func (o *outside) poolOf(t testing.TB, k stack, s *testbed.Server, c driver.Connector, opts ...sqllock.Option) *rig {
	t.Helper()
	r := &rig{t: t, stack: k, server: s, outside: o, reports: &reports{}}
	r.DB = sqllock.OpenDB(c, append([]sqllock.Option{sqllock.WithReport(r.reports.add)}, opts...)...)
	t.Cleanup(func() {
		r.DB.Close()
		o.awaitFree(t, 2*time.Second)
	})
	return r
}

// pin takes a connection out of the pool.
func (r *rig) pin() *sql.Conn {
	r.t.Helper()
	c, err := r.Conn(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// giveBack returns the only pinned connection and reports whether the pool has kept one.
func (r *rig) giveBack(c *sql.Conn) (kept bool) {
	r.t.Helper()
	err := c.Close()
	if err != nil && !errors.Is(err, sql.ErrConnDone) {
		r.t.Fatalf("return of the connection: %v", err)
	}
	if err != nil { // database/sql has rolled back a cancelled transaction, and may still be closing the connection
		await(r.t, 2*time.Second, func() error {
			if n := r.DB.Stats().InUse; n != 0 {
				return fmt.Errorf("%d connections are in use", n)
			}
			return nil
		})
	}
	return r.DB.Stats().OpenConnections > 0
}

func (r *rig) stats() sqllock.Stats {
	r.t.Helper()
	s, err := sqllock.ReadStats(r.DB)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// must runs statements that have to succeed on c.
func (r *rig) must(c querier, texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		if err := readAll(context.Background(), c, text); err != nil {
			r.t.Fatalf("%s: %v", text, err)
		}
	}
}

// wantReports fails unless the reports so far are of these kinds, in this order. It takes them.
func (r *rig) wantReports(kinds ...sqllock.Kind) []sqllock.Report {
	r.t.Helper()
	got := r.reports.take()
	if !slices.Equal(kindsOf(got), kinds) {
		r.t.Errorf("reports are %v, want %v\n%v", kindsOf(got), kinds, got)
	}
	return got
}

func kindsOf(rs []sqllock.Report) (kinds []sqllock.Kind) {
	for _, r := range rs {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// reports collects what the guard reports.
type reports struct {
	mu  sync.Mutex
	all []sqllock.Report
}

func (r *reports) add(one sqllock.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, one)
}

func (r *reports) take() []sqllock.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// readAll sends text as a query and reads every row of every result set.
func readAll(ctx context.Context, c querier, text string, args ...any) error {
	rows, err := c.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for {
		for rows.Next() {
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if !rows.NextResultSet() {
			return errors.Join(rows.Err(), rows.Close())
		}
	}
}

// value returns the one value that text answers, as text.
func value(t testing.TB, c querier, text string, args ...any) string {
	t.Helper()
	rows, err := c.QueryContext(context.Background(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	var v sql.NullString
	if !rows.Next() {
		t.Fatalf("%s: no row: %v", text, rows.Err())
	}
	if err := rows.Scan(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if !v.Valid {
		return "NULL"
	}
	return v.String
}

// outside looks at one database through one unwrapped connection, which it keeps: a look costs one round trip.
type outside struct {
	*sql.Conn
	postgres bool
}

const (
	// pgHeld lists advisory locks, of sessions and of open transactions alike.
	pgHeld = `SELECT mode || ' ' || objsubid || ':' || classid || ',' || objid || ' pid ' || pid FROM pg_catalog.pg_locks
		WHERE locktype = 'advisory' AND granted AND pid IS NOT NULL AND pid <> pg_catalog.pg_backend_pid()
		AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())`
	pgOpenTx = `SELECT 'open transaction pid ' || pid FROM pg_catalog.pg_stat_activity
		WHERE datname = pg_catalog.current_database() AND state LIKE 'idle in transaction%'`
	pgSessions = `SELECT count(*) FROM pg_catalog.pg_stat_activity
		WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid() AND backend_type = 'client backend'`

	// mysqlHeld lists every metadata lock that outlives its statement, those of an open transaction's tables included.
	mysqlHeld = `SELECT CONCAT_WS(' ', m.OBJECT_TYPE, m.LOCK_TYPE, m.LOCK_DURATION, m.OBJECT_NAME, 'id', t.PROCESSLIST_ID)
		FROM performance_schema.metadata_locks m JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID
		WHERE m.LOCK_STATUS = 'GRANTED' AND m.LOCK_DURATION <> 'STATEMENT' AND m.LOCK_TYPE <> 'INTENTION_EXCLUSIVE'
		AND t.PROCESSLIST_ID <> CONNECTION_ID() AND t.PROCESSLIST_DB = DATABASE()`
	mysqlOpenTx = `SELECT CONCAT('open transaction id ', t.PROCESSLIST_ID) FROM performance_schema.events_transactions_current x
		JOIN performance_schema.threads t ON t.THREAD_ID = x.THREAD_ID
		WHERE x.STATE = 'ACTIVE' AND x.AUTOCOMMIT = 'NO' AND t.PROCESSLIST_DB = DATABASE() AND t.PROCESSLIST_ID <> CONNECTION_ID()`
	mysqlSessions = `SELECT COUNT(*) FROM information_schema.processlist WHERE DB = DATABASE() AND ID <> CONNECTION_ID()`
)

// lookAt starts looking at the database of s.
func lookAt(t testing.TB, s *testbed.Server) *outside {
	t.Helper()
	c, err := s.Outside(t).Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	o := &outside{Conn: c, postgres: strings.HasPrefix(s.DSN(), "postgres")}
	if !o.postgres { // MariaDB does not watch transactions by itself
		o.exec(t, "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'transaction'",
			"UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'events_transactions_current'")
	}
	return o
}

func (o *outside) exec(t testing.TB, texts ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, text := range texts {
		if _, err := o.ExecContext(ctx, text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

func (o *outside) makeTable(t testing.TB) {
	t.Helper()
	o.exec(t, "CREATE TABLE t (a int, s varchar(100))", "INSERT INTO t VALUES (1, 'x')")
}

func (o *outside) list(query string) (found []string, err error) {
	rows, err := o.QueryContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

// held returns what other sessions hold in this database.
func (o *outside) held(t testing.TB) []string {
	t.Helper()
	query := mysqlHeld
	if o.postgres {
		query = pgHeld
	}
	held, err := o.list(query)
	if err != nil {
		t.Fatalf("what is held: %v", err)
	}
	return held
}

// openTx returns the sessions that sit in a transaction.
func (o *outside) openTx(t testing.TB) []string {
	t.Helper()
	query := mysqlOpenTx
	if o.postgres {
		query = pgOpenTx
	}
	open, err := o.list(query)
	if err != nil {
		t.Fatalf("open transactions: %v", err)
	}
	return open
}

func (o *outside) database(t testing.TB) string {
	t.Helper()
	if o.postgres {
		return value(t, o, "SELECT current_database()")
	}
	return value(t, o, "SELECT DATABASE()")
}

func (o *outside) sessions(t testing.TB) string {
	t.Helper()
	if o.postgres {
		return value(t, o, pgSessions)
	}
	return value(t, o, mysqlSessions)
}

// awaitFree waits until nothing is held.
func (o *outside) awaitFree(t testing.TB, within time.Duration) {
	t.Helper()
	await(t, within, func() error {
		if held := o.held(t); len(held) > 0 {
			return fmt.Errorf("still held: %s", strings.Join(held, "; "))
		}
		return nil
	})
}

// awaitSessions waits until there are n other sessions on the database.
func (o *outside) awaitSessions(t testing.TB, n string) {
	t.Helper()
	await(t, 5*time.Second, func() error {
		if got := o.sessions(t); got != n {
			return fmt.Errorf("%s sessions, want %s", got, n)
		}
		return nil
	})
}

// await polls a condition.
func await(t testing.TB, within time.Duration, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("after %v: %v", within, err)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// onEach runs f as a parallel subtest for each stack.
func onEach(t *testing.T, f func(t *testing.T, k stack), stacks ...stack) {
	t.Helper()
	for _, k := range stacks {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			f(t, k)
		})
	}
}
