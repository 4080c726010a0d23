package sqllock_test

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

const planted = "pl4nted-s3cret"

// said collects everything that comes out of the library.
type said struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

func (s *said) add(what ...any) { fmt.Fprintf(s, "%+v\n%#v\n", what, what) }

// listen sends the program's log, at its most talkative, to what is said. The default logger is the process's: such a test is not parallel.
func listen(t *testing.T) *said {
	s := &said{}
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true})))
	t.Cleanup(func() { slog.SetDefault(before) })
	return s
}

// wantNoSecret fails unless something was said, and nothing has the secret.
func (s *said) wantNoSecret(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.String()
	if i := strings.Index(text, planted); i >= 0 {
		t.Errorf("the secret is in %q", text[max(0, i-300):min(len(text), i+100)])
	}
	if len(text) < 500 {
		t.Errorf("only %q was said: the test has seen nothing", text)
	}
}

// mistakes are statements of every kind that is reported, with a secret among the arguments of each.
func (k stack) mistakes() []string {
	if k.postgres() {
		return []string{
			"SELECT pg_advisory_lock(7), $1::text", "SELECT pg_advisory_unlock(8) FROM (SELECT $1::text) s", "SELECT pg_advisory_xact_lock(9), $1::text",
			"SELECT pg_advisory_lock(7) WHERE $1::text <> ''", "SELECT pg_advisory_lock(7) FROM nowhere WHERE $1::text = ''", "SELECT pg_try_advisory_lock(7 / 0), $1::text",
			"SELECT pg_try_advisory_lock(length($1))", "SELECT pg_advisory_unlock(length($1))",
		}
	}
	return []string{
		"SELECT GET_LOCK('sec', 0), ?", "SELECT RELEASE_LOCK('sec2') FROM (SELECT ?) s", "SELECT GET_LOCK('sec', LENGTH(?))", "SELECT GET_LOCK('sec', 0) FROM nowhere WHERE ? = ''",
		"DO GET_LOCK('sec', 0) + LENGTH(?)", "SELECT GET_LOCK(NULL, LENGTH(?))", "SELECT RELEASE_LOCK(MD5(?))",
	}
}

// No argument is in a report, an error, a count or the log; whether the driver binds it or writes it into the text.
func TestArgumentsAreNotLogged(t *testing.T) {
	for _, c := range []struct {
		stack  stack
		params string
	}{{onPgx, ""}, {onPgx, "default_query_exec_mode=simple_protocol"}, {onPQ, ""}, {onMySQL, ""}, {onMySQL, "interpolateParams=true"}, {onMariaDB, ""}, {onMariaDB, "interpolateParams=true"}} {
		t.Run(c.stack.name+" "+c.params, func(t *testing.T) {
			s := listen(t)
			for _, opts := range [][]sqllock.Option{nil, {sqllock.WithProbe(sqllock.ProbeNever)}, {sqllock.WithPolicy(sqllock.ReportOnly)}, {sqllock.WithHoldLimit(time.Nanosecond)}} {
				r := newRig(t, c.stack, c.params, append(opts, sqllock.WithReport(func(r sqllock.Report) { s.add(r, r.String(), r.Err); slog.Warn(r.String(), "report", r) }))...)
				for _, text := range c.stack.mistakes() {
					r.mistake(s, text)
				}
				r.DB.Close()
			}
			s.wantNoSecret(t)
		})
	}
}

// mistake leaks in three ways. What the server itself answers is not the library's to change, so that only texts that it does not repeat are sent.
func (r *rig) mistake(s *said, text string) {
	ctx := context.Background()
	c := r.pin()
	s.add(readAll(ctx, c, text, planted))
	held, err := sqllock.Held(r.DB)
	s.add(held, err, fmt.Sprint(held))
	c.Close()
	if tx, err := r.BeginTx(ctx, nil); err == nil {
		s.add(readAll(ctx, tx, text, planted), tx.Rollback())
	}
	if stmt, err := r.PrepareContext(ctx, text); err == nil {
		_, err := stmt.Exec(planted)
		s.add(err, stmt.Close())
	}
	stats, err := sqllock.ReadStats(r.DB)
	s.add(stats, err)
}

// A DSN is in nothing that is said, whatever befalls its pool.
func TestDSNsAreNotLogged(t *testing.T) {
	for _, k := range []stack{onPgx, onPQ, onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			server, s := k.server(t).NewDatabase(t), listen(t)
			proxy := testbed.NewProxy(t, server.Addr())
			db := sqllock.OpenDB(k.withSecret(t, server, proxy))
			defer db.Close()
			l := wholeLocker(sqllock.NewMySQL(db))
			if k.postgres() {
				l = sqllock.NewPostgres(db)
			}
			defer l.Close()
			lock := mustTry(t, l, testKey(t))
			found, err := sqllock.Check(t.Context(), db)
			s.add(found, found.Headline(), err)
			holders, err := sqllock.Holders(t.Context(), db)
			s.add(holders, err)
			leaky, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.add(readAll(t.Context(), leaky, k.lockText(t)), leaky.Close())
			proxy.Cut()
			s.add(lock.Release())
			dead := sqllock.OpenDB(k.withSecret(t, server, testbed.NewProxy(t, "127.0.0.1:1")))
			defer dead.Close()
			_, err = sqllock.Check(t.Context(), dead)
			s.add(err, dead.Ping())
			_, err = sqllock.NewMySQL(dead).Acquire(t.Context(), sqllock.Name("x"))
			s.add(err)
			s.wantNoSecret(t)
		})
	}
}

// withSecret connects through the proxy with the secret as password, which PostgreSQL does not ask for here.
func (k stack) withSecret(t *testing.T, s *testbed.Server, p *testbed.Proxy) driver.Connector {
	t.Helper()
	if k.postgres() {
		return k.connector(t, s.Via(p), "password="+planted)
	}
	out := lookAt(t, s)
	user := fmt.Sprint("s", p.Addr()[strings.LastIndex(p.Addr(), ":")+1:], out.database(t)[1:])
	out.exec(t, "CREATE USER "+user+" IDENTIFIED BY '"+planted+"'", "GRANT ALL ON *.* TO "+user)
	t.Cleanup(func() { out.exec(t, "DROP USER "+user) })
	cfg, err := mysql.ParseDSN(fmt.Sprintf("%s:%s@tcp(%s)/%s", user, planted, p.Addr(), out.database(t)))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = &mysql.NopLogger{}
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
