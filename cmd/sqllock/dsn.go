package main

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqllock/sqllock"
	_ "github.com/sqllock/sqllock/mysqllock" // what the drivers can do beyond database/sql
	_ "github.com/sqllock/sqllock/pgxlock"
)

// maxPurpose is what PostgreSQL keeps of a client's name; a name that is too long for its first packet would not connect at all.
const maxPurpose = 63

const connectTimeout = 10 * time.Second // where the DSN says none

// open opens a pool on the database that the flag or the environment names. purpose is what it is called on the server.
// plain keeps the driver's defaults; otherwise what costs round trips is left out.
func (a *app) open(purpose string, plain bool) (*sql.DB, sqllock.Dialect, error) {
	dsn, err := a.source()
	if err != nil {
		return nil, 0, err
	}
	var c driver.Connector
	dialect := sqllock.DialectPostgres
	if isMySQL(dsn) {
		dialect = sqllock.DialectMySQL
		c, err = a.mysql(dsn)
	} else {
		c, err = a.postgres(dsn, purpose, plain)
	}
	if err != nil {
		return nil, 0, err
	}
	return sql.OpenDB(c), dialect, nil
}

// source returns the DSN; an empty one lets pgx read libpq's variables.
func (a *app) source() (string, error) {
	if a.dsn != "" {
		return a.dsn, nil
	}
	for _, name := range []string{"SQLLOCK_DSN", "DATABASE_URL"} {
		if v := os.Getenv(name); v != "" {
			return v, nil
		}
	}
	for _, name := range []string{"PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE", "PGUSER", "PGPORT"} {
		if os.Getenv(name) != "" {
			return "", nil
		}
	}
	return "", usage("no database: set SQLLOCK_DSN, DATABASE_URL or libpq's PG* variables, or give --dsn")
}

// isMySQL tells the forms of a DSN apart: URLs by their scheme, and go-sql-driver's own form.
func isMySQL(dsn string) bool {
	scheme, _, isURL := strings.Cut(dsn, "://")
	if isURL && isScheme(scheme) {
		return isMySQLScheme(scheme)
	}
	return strings.Contains(dsn, "@tcp(") || strings.Contains(dsn, "@unix(")
}

func isScheme(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '+' })
}

func isMySQLScheme(s string) bool { return s == "mysql" || s == "mysql2" || s == "mariadb" }

func (a *app) postgres(dsn, purpose string, plain bool) (driver.Connector, error) {
	if scheme, _, isURL := strings.Cut(dsn, "://"); isURL && isScheme(scheme) && scheme != "postgres" && scheme != "postgresql" {
		return nil, usage(fmt.Sprintf("the DSN's scheme %q is none of postgres, postgresql, mysql and mariadb", scheme))
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, badDSN(err)
	}
	a.secrets = append(a.secrets, cfg.Password)
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = shorten(printable(purpose), maxPurpose)
	}
	if !plain && !strings.Contains(dsn, "default_query_exec_mode") {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip a statement, and nothing stays in a pooler
	}
	return stdlib.GetConnector(*cfg), nil
}

// badDSN says nothing of a DSN that could not be read: a part of its password may be anywhere in it.
func badDSN(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return usage("a file that the DSN or a PG* variable names does not exist")
	}
	return usage("the DSN cannot be read: it is postgres://user:password@host:port/name, with special characters of the password as %XX, or libpq's key=value form")
}

func (a *app) mysql(dsn string) (driver.Connector, error) {
	own, err := mysqlForm(dsn)
	if err != nil {
		return nil, err
	}
	cfg, err := mysql.ParseDSN(own)
	if err != nil {
		return nil, errMySQLDSN
	}
	a.secrets = append(a.secrets, cfg.Passwd)
	if cfg.Timeout == 0 {
		cfg.Timeout = connectTimeout
	}
	if cfg.ConnectionAttributes == "" {
		cfg.ConnectionAttributes = "program_name:sqllock"
	}
	cfg.Logger = &mysql.NopLogger{} // what it would say comes as an error
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, errMySQLDSN
	}
	return c, nil
}

var errMySQLDSN = usage("the DSN cannot be read: it is mysql://user:password@host:port/name, with special characters of the password as %XX, or user:password@tcp(host:port)/name")

// mysqlForm turns a URL into the driver's own form.
func mysqlForm(dsn string) (string, error) {
	scheme, _, isURL := strings.Cut(dsn, "://")
	if !isURL || !isMySQLScheme(scheme) {
		return dsn, nil
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		return "", errMySQLDSN
	}
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	if u.Port() == "" {
		cfg.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	own := cfg.FormatDSN()
	if u.RawQuery != "" {
		_, params, found := strings.Cut(own, "?")
		if found && params != "" {
			return own + "&" + u.RawQuery, nil
		}
		own = strings.TrimSuffix(own, "?") + "?" + u.RawQuery
	}
	return own, nil
}
