package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sqllock/sqllock"
)

// The defaults of a ledger.
const (
	DefaultTable    = "job_runs"
	DefaultAttempts = 3
)

// A Ledger runs each slot of a job once: a lock keeps replicas from running it at the same time, and a row of its table
// from running it again. Make it with [NewLedger]. It is safe for concurrent use and has nothing to close.
//
// Every time in the table is the server's, in UTC: the replicas' clocks are not asked.
type Ledger struct {
	db     *sql.DB
	locker sqllock.Locker
	cfg    config
	err    error // of the options
	table  atomic.Pointer[table]

	step func(name string) // a test's: told what Once does next
}

type config struct {
	table    string
	attempts int
	host     string
}

// A LedgerOption changes how a [Ledger] works. One that makes no sense is an error of every call.
type LedgerOption interface{ applyLedger(*config) error }

type ledgerOption func(*config) error

func (f ledgerOption) applyLedger(c *config) error { return f(c) }

// WithTable names the table: "job_runs" (the default, [DefaultTable]) or "schema.job_runs". It is quoted, so that case
// counts on PostgreSQL. Ledgers on two tables do not keep each other out.
func WithTable(name string) LedgerOption {
	return ledgerOption(func(c *config) error {
		c.table = name
		return checkTable(name)
	})
}

// WithAttempts says how often one slot may be run, counting runs that failed and runs that were cut off by a crash;
// the default is [DefaultAttempts]. A replica whose tick comes later tries a failed slot again at once. 1 means never again after a failure or a crash.
func WithAttempts(n int) LedgerOption {
	return ledgerOption(func(c *config) error {
		c.attempts = n
		if n < 1 {
			return fmt.Errorf("jobs: WithAttempts(%d): must be at least 1", n)
		}
		return nil
	})
}

// WithHost sets what the table says about who ran a slot; the default is the host's name and the process's number.
// It is cut after 255 bytes.
func WithHost(host string) LedgerOption {
	return ledgerOption(func(c *config) error {
		c.host = clean(host, 255)
		return nil
	})
}

// NewLedger returns a ledger whose table is reached through db and whose locks come from locker, which should be on the
// same database: [sqllock.NewPostgres] or [sqllock.NewMySQL]. It sends nothing.
func NewLedger(db *sql.DB, locker sqllock.Locker, opts ...LedgerOption) *Ledger {
	l := &Ledger{db: db, locker: locker, cfg: config{table: DefaultTable, attempts: DefaultAttempts, host: self()}}
	if db == nil || locker == nil {
		l.err = errors.New("jobs: NewLedger needs a *sql.DB and a Locker: one is nil")
	}
	for _, o := range opts {
		if o != nil {
			l.err = errors.Join(l.err, o.applyLedger(&l.cfg))
		}
	}
	return l
}

func self() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown host"
	}
	return fmt.Sprintf("%s pid %d", clean(name, 200), os.Getpid())
}

// Key returns the key that is locked while job runs: the table's schema and name as namespace, "public.job_runs", and the
// job's name. On MySQL the schema is the database, so that jobs of other databases on the server do not count.
func (l *Ledger) Key(ctx context.Context, job string) (sqllock.Key, error) {
	t, err := l.ready(ctx, l.db, job)
	if err != nil {
		return sqllock.Key{}, err
	}
	return t.lockKey(job), nil
}

func (t *table) lockKey(job string) sqllock.Key { return t.space.Name(job) }

// names are the schema, "" for the session's own, and the name of the table.
func (c *config) names() (schema, name string) {
	schema, name, found := strings.Cut(c.table, ".")
	if !found {
		return "", c.table
	}
	return schema, name
}

// ready checks a call before anything is sent, and finds the table.
func (l *Ledger) ready(ctx context.Context, q querier, job string) (*table, error) {
	if l.err != nil {
		return nil, l.err
	}
	if err := checkJob(job); err != nil {
		return nil, err
	}
	return l.find(ctx, q)
}

func (l *Ledger) readyFor(ctx context.Context, q querier, job string, slot time.Time) (*table, error) {
	if l.err == nil {
		if err := checkSlot(job, slot); err != nil {
			return nil, err
		}
	}
	return l.ready(ctx, q, job)
}

// at names the place of an error.
func at(job string, slot time.Time, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("jobs: %s, slot %s: %w", legible(job), slot.Format(time.RFC3339Nano), err)
}

func (l *Ledger) next(step string) {
	if l.step != nil {
		l.step(step)
	}
}
