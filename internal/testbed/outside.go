package testbed

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // registers "pgx"
)

// Outside returns a pool of the server's own, unguarded driver, for looking on from outside. It goes to the server
// itself, past any pooler or proxy, and is closed when t ends.
func (s *Server) Outside(t testing.TB) *sql.DB {
	t.Helper()
	direct := *s.direct()
	if direct.Kind == KindPostgres { // whatever time-out a test gives its database
		direct.params = strings.TrimPrefix(direct.params+"&statement_timeout=0", "&")
	}
	db, err := direct.open()
	if err != nil {
		t.Fatalf("testbed: %v", err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// NewDatabase returns the same server with a database of t's own, which is dropped when t ends. Tests that run in
// parallel need one: PostgreSQL's advisory locks are per database. MySQL's and MariaDB's named locks are per server
// whatever the database, so a test must still choose names of its own; Held then lists its own sessions' locks only.
func (s *Server) NewDatabase(t testing.TB) *Server {
	t.Helper()
	name := "t_" + randomName()
	if err := s.direct().exec("CREATE DATABASE " + name); err != nil {
		t.Fatalf("testbed: %v", err)
	}
	t.Cleanup(func() { s.direct().drop(t, name) })
	return s.withDatabase(name)
}

func (s *Server) drop(t testing.TB, name string) {
	t.Helper()
	if s.private && !s.program.running() {
		return // the whole server is gone
	}
	query := "DROP DATABASE " + name
	if !s.isMySQL() {
		query += " WITH (FORCE)" // idle sessions of a pooler would be in the way
	}
	if err := s.exec(query); err != nil {
		t.Logf("testbed: %s: %v", query, err)
	}
}

// answerLimit bounds each of the test bed's own statements: a server may have been stopped by a test.
const answerLimit = 30 * time.Second

// exec runs one statement on a connection of its own.
func (s *Server) exec(query string) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	_, err = db.ExecContext(ctx, query)
	return err
}

// ask scans the one row of query, on a connection of its own.
func (s *Server) ask(ctx context.Context, query string, dest ...any) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close()
	return db.QueryRowContext(ctx, query).Scan(dest...)
}

// open opens a pool of the server's own driver.
func (s *Server) open() (*sql.DB, error) {
	if !s.isMySQL() {
		return sql.Open("pgx", s.URL())
	}
	cfg, err := mysqldriver.ParseDSN(s.DSN())
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysqldriver.NopLogger{} // a server that starts or dies is no news
	connector, err := mysqldriver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
