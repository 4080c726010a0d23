package testbed

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"testing"
)

// The kinds of server.
const (
	KindPostgres  = "PostgreSQL"
	KindMariaDB   = "MariaDB"
	KindMySQL     = "MySQL"
	KindPgBouncer = "PgBouncer"
	KindRedis     = "Redis"
)

// Server is one database of one running server, and the address a client reaches it at.
// A Server never changes, so it is safe for concurrent use; its methods that act on the program are not.
type Server struct {
	Kind    string // one of the Kind constants
	Host    string
	Port    int
	Version string // as the server says it, e.g. "15.18" or "10.11.19-MariaDB"

	user, password, database, params string

	program *program // nil for a server from a DSN variable
	private bool     // started for one test alone
	wide    bool     // MySQL and MariaDB: Held looks at the whole server, not at one database's sessions
	behind  *Server  // the server itself, when this one is a pooler's or a proxy's address for it
}

// Postgres returns the PostgreSQL server that all tests of this process share.
// Its advisory locks are shared too: most tests want a database of their own, see [Server.NewDatabase].
func Postgres(t testing.TB) *Server {
	t.Helper()
	return shared(t, postgres)
}

// MariaDB returns the MariaDB server that all tests of this process share.
func MariaDB(t testing.TB) *Server {
	t.Helper()
	return shared(t, mariadb)
}

// MySQL returns the MySQL server that all tests of this process share.
func MySQL(t testing.TB) *Server {
	t.Helper()
	return shared(t, mysqld)
}

// StartPostgres starts a PostgreSQL server for t alone, which may stop, kill and restart it; it ends with t.
// Each conf is one setting, "key=value".
func StartPostgres(t testing.TB, conf ...string) *Server {
	t.Helper()
	return startPrivate(t, postgres, conf)
}

// StartMariaDB starts a MariaDB server for t alone. Each arg is one more argument of the server program.
func StartMariaDB(t testing.TB, args ...string) *Server {
	t.Helper()
	return startPrivate(t, mariadb, args)
}

// StartMySQL starts a MySQL server for t alone. Each arg is one more argument of the server program.
func StartMySQL(t testing.TB, args ...string) *Server {
	t.Helper()
	return startPrivate(t, mysqld, args)
}

// URL returns the postgres:// URL of a PostgreSQL server or pooler, for pgx and lib/pq alike.
func (s *Server) URL() string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(s.user, s.password),
		Host:     s.addr(),
		Path:     "/" + s.database,
		RawQuery: s.params,
	}
	return u.String()
}

// DSN returns the data source name that the driver expects: the URL for PostgreSQL, go-sql-driver's form otherwise.
func (s *Server) DSN() string {
	if !s.isMySQL() {
		return s.URL()
	}
	dsn := fmt.Sprintf("%s:%s@tcp(%s)/%s", s.user, s.password, s.addr(), s.database)
	if s.params != "" {
		dsn += "?" + s.params
	}
	return dsn
}

// Via returns the same database at the proxy's address. What looks from outside still goes there directly.
func (s *Server) Via(p *Proxy) *Server {
	via := *s
	via.Host, via.Port = splitAddr(p.Addr())
	via.behind = s
	return &via
}

// Before tells whether the server is of an older major version than major.
func (s *Server) Before(major int) bool {
	var own int
	fmt.Sscan(s.Version, &own) // stops at the first dot
	return own < major
}

// Addr returns host:port.
func (s *Server) Addr() string { return s.addr() }

func (s *Server) addr() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

func (s *Server) isMySQL() bool { return s.Kind == KindMySQL || s.Kind == KindMariaDB }

// direct returns the server without the poolers and proxies in front of it.
func (s *Server) direct() *Server {
	for s.behind != nil {
		s = s.behind
	}
	return s
}

// withDatabase returns the same address for another database.
func (s *Server) withDatabase(name string) *Server {
	other := *s
	other.database, other.wide = name, false
	if s.behind != nil {
		other.behind = s.behind.withDatabase(name)
	}
	return &other
}

func splitAddr(addr string) (host string, port int) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err) // only addresses of our own listeners come here
	}
	port, err = strconv.Atoi(p)
	if err != nil {
		panic(err)
	}
	return host, port
}
