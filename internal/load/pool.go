package load

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	_ "github.com/sqllock/sqllock/mysqllock" // the adapters, as in a user's program
	_ "github.com/sqllock/sqllock/pgxlock"
)

// connector is the driver's own.
func (c Config) connector() (driver.Connector, error) {
	switch c.Driver {
	case "pgx":
		cfg, err := pgx.ParseConfig(c.DSN)
		if err != nil {
			return nil, err
		}
		return stdlib.GetConnector(*cfg), nil
	case "pq":
		return pq.NewConnector(c.DSN)
	case "mysql":
		cfg, err := mysql.ParseDSN(c.DSN)
		if err != nil {
			return nil, err
		}
		cfg.MultiStatements = true
		cfg.Logger = &mysql.NopLogger{} // connections that are cut on purpose are no news
		return mysql.NewConnector(cfg)
	}
	return nil, fmt.Errorf("load: the driver %q is none of pgx, pq and mysql", c.Driver)
}

// outside is a pool that nobody guards.
func (c Config) outside() (*sql.DB, error) {
	connector, err := c.connector()
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// A meter measures what it takes to open a connection.
type meter struct {
	driver.Connector
	opened atomic.Int64

	mu   sync.Mutex
	took []time.Duration // the latest maxTook
	next int
}

const maxTook = 4096

func (m *meter) Connect(ctx context.Context) (driver.Conn, error) {
	began := time.Now()
	c, err := m.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	m.opened.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.took) < maxTook {
		m.took = append(m.took, 0)
	}
	m.took[m.next%maxTook] = time.Since(began)
	m.next++
	return c, nil
}

// Connects are the connections that were opened.
type Connects struct {
	N           int64
	Median, P99 time.Duration // of the latest few thousand, under the load
}

func (m *meter) all() Connects {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.took) == 0 {
		return Connects{}
	}
	slices.Sort(m.took)
	return Connects{m.opened.Load(), m.took[len(m.took)/2], m.took[len(m.took)*99/100]}
}

// A counter counts the lines of the log that are reports, and drops them.
type counter struct{ atomic.Int64 }

// listen makes c the process's log until the end.
func listen(c *counter) (end func()) {
	before := slog.Default()
	slog.SetDefault(slog.New(c))
	return func() { slog.SetDefault(before) }
}

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }
func (c *counter) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *counter) WithGroup(string) slog.Handler            { return c }

func (c *counter) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "sqllock:") {
		c.Add(1)
	}
	return nil
}

// problems are what should not have failed.
type problems struct {
	mu   sync.Mutex
	list []string
	n    int
}

const maxProblems = 10

func (p *problems) add(where string, err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n++; p.n <= maxProblems {
		p.list = append(p.list, fmt.Sprintf("%s: %v", where, err))
	}
}

func (p *problems) first() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n > maxProblems {
		return append(p.list, fmt.Sprintf("and %d more", p.n-maxProblems))
	}
	return p.list
}
