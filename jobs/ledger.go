package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sqllock/sqllock"
)

// A Ledger keeps one row per job and slot, in the table job_runs, and lets each slot succeed once. It is safe for
// concurrent use; make one with [NewLedger].
//
// All replicas use the same table, and lockers of one kind on the same database.
type Ledger struct {
	db     *sql.DB
	locker sqllock.Locker
	cfg    ledgerConfig
	err    error // of the options

	mu    sync.Mutex
	found *table               // guarded by mu: what the server has, once it was looked at
	last  map[string]time.Time // guarded by mu: the latest slot of each job on a table that cannot tell slots of one date apart

	step func(name string) // tests stop the process here; never nil
}

// A Run is one attempt at one slot, as the job sees it.
type Run struct {
	Job     string
	Slot    time.Time // as Once was given it; in Recover, in the ledger's location: see WithLocation
	Attempt int       // 1 for the first one
	// Token is a fencing token: it grows with every attempt at any slot of the job. A resource that remembers the
	// greatest token it has seen, and refuses smaller ones, refuses a run that was superseded and does not know it yet:
	//
	//	UPDATE accounts SET balance = $1, token = $2 WHERE id = $3 AND token <= $2
	//
	// changes no row for such a run. The counter is in the ledger's table. So it holds across a failover if the
	// resource is in the same database, which then loses as much as the ledger does, or if replication is
	// synchronous; with asynchronous replication a token can be given twice, and a resource outside cannot tell.
	Token int64
}

type ledgerConfig struct {
	table    string
	attempts int
	delay    time.Duration
	location *time.Location
	host     string
}

// A LedgerOption changes how a [Ledger] works. An impossible value is an error of every call.
type LedgerOption interface{ applyLedger(*ledgerConfig) error }

type ledgerOption func(*ledgerConfig) error

func (f ledgerOption) applyLedger(c *ledgerConfig) error { return f(c) }

// The defaults of a [Ledger].
const (
	DefaultTable      = "job_runs"
	DefaultAttempts   = 3
	DefaultRetryDelay = time.Minute
)

// WithTable names the table: "runs", or "schema.runs". The default is [DefaultTable]. The parts are quoted as they
// are. The job's lock belongs to the last part: ledgers on tables of one name in two schemas share the locks.
func WithTable(name string) LedgerOption {
	return ledgerOption(func(c *ledgerConfig) error {
		for part := range strings.SplitSeq(name, ".") {
			if part == "" || len(part) > 63 || strings.ContainsRune(part, 0) || strings.Count(name, ".") > 1 {
				return fmt.Errorf("WithTable(%q): want a name or schema.name, each of 1 to 63 bytes", name)
			}
		}
		c.table = name
		return nil
	})
}

// WithAttempts sets how often a slot is begun at most, the first time included; the default is [DefaultAttempts]. An
// attempt that ended in a crash counts, so that a job which kills its process does not do so for ever.
func WithAttempts(n int) LedgerOption {
	return ledgerOption(func(c *ledgerConfig) error {
		if n < 1 {
			return fmt.Errorf("WithAttempts(%d): must be at least 1", n)
		}
		c.attempts = n
		return nil
	})
}

// WithRetryDelay sets how long a slot rests after an attempt that returned an error, by the server's clock; the
// default is [DefaultRetryDelay], 0 is none. Without it, replicas that fire a moment later would use up the attempts
// at once. After a crash there is no delay: another replica takes over as soon as the lock is free.
func WithRetryDelay(d time.Duration) LedgerOption {
	return ledgerOption(func(c *ledgerConfig) error {
		if d < 0 {
			return fmt.Errorf("WithRetryDelay(%v): must not be negative", d)
		}
		c.delay = d
		return nil
	})
}

// WithLocation sets the location of the slots that come from the table, in [Ledger.Recover] and [Ledger.Runs]; the
// default is UTC. On the two-column table, which has dates only, such a slot is midnight there.
func WithLocation(l *time.Location) LedgerOption {
	return ledgerOption(func(c *ledgerConfig) error {
		if l == nil {
			return errors.New("WithLocation(nil): want a location")
		}
		c.location = l
		return nil
	})
}

// WithHost sets what the table says about who runs; the default is the host's name and the process id.
func WithHost(name string) LedgerOption {
	return ledgerOption(func(c *ledgerConfig) error {
		c.host = shorten(name, maxHost)
		return nil
	})
}

// NewLedger returns a ledger on db, whose driver may be guarded or not. The locker is [sqllock.NewPostgres] or
// [sqllock.NewMySQL] on the same database, so that lock and rows share their fate in a failover. It connects to nothing. A
// running job costs its locker's pinned connection, and the ledger another one for a moment at its begin and its end:
// the pool needs at least two.
func NewLedger(db *sql.DB, locker sqllock.Locker, opts ...LedgerOption) *Ledger {
	l := &Ledger{db: db, locker: locker, last: map[string]time.Time{}, step: func(string) {}}
	l.cfg = ledgerConfig{table: DefaultTable, attempts: DefaultAttempts, delay: DefaultRetryDelay, location: time.UTC, host: hostname()}
	if db == nil || locker == nil {
		l.err = errors.New("the *sql.DB or the Locker is nil")
	}
	for _, o := range opts {
		if o != nil {
			l.err = errors.Join(l.err, o.applyLedger(&l.cfg))
		}
	}
	if l.err != nil {
		l.err = fmt.Errorf("jobs: %w", l.err)
	}
	return l
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown host"
	}
	return shorten(fmt.Sprintf("%s:%d", name, os.Getpid()), maxHost)
}

// Key returns the key that is locked while a slot of the job runs: for [sqllock.HeldError.Holder], for psql, and for
// what else must not run beside the job.
func (l *Ledger) Key(job string) sqllock.Key {
	return l.space("").Name(job)
}

// space keeps the ledger's keys apart from those of tables with another name.
func (l *Ledger) space(what string) sqllock.Namespace {
	return sqllock.Namespace(l.cfg.table[strings.LastIndexByte(l.cfg.table, '.')+1:] + what)
}

// The widths of the table's columns, in characters.
const (
	maxJob   = 100
	maxHost  = 255
	maxError = 1000
)

// checkJob refuses what servers would change, or not tell apart: MySQL ignores trailing spaces.
func checkJob(job string) error {
	bad := job == "" || utf8.RuneCountInString(job) > maxJob || !utf8.ValidString(job) ||
		strings.TrimSpace(job) != job || strings.ContainsFunc(job, unicode.IsControl)
	if bad {
		return fmt.Errorf("jobs: the job's name %q: want 1 to %d characters, without control characters and surrounding spaces", job, maxJob)
	}
	return nil
}

// shorten makes a text fit for a column.
func shorten(s string, most int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?")
	for i := range s {
		if most--; most < 0 {
			return s[:i]
		}
	}
	return s
}

// ready returns the table, and the slot as it is spelled there.
func (l *Ledger) ready(ctx context.Context, q querier, job string, slot time.Time) (*table, string, error) {
	if l.err != nil {
		return nil, "", l.err
	}
	if err := checkJob(job); err != nil {
		return nil, "", err
	}
	t, err := l.table(ctx, q)
	if err != nil {
		return nil, "", err
	}
	at, err := t.spell(slot)
	return t, at, err
}
