package sqllock

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// An Option changes how a guarded driver works. The defaults are safe: without any option every leak is
// discarded, reported to log/slog, and doubts are settled by a probe.
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// A Policy says what happens to a connection that comes back to the pool still holding a session lock.
type Policy uint8

const (
	// Discard ends the session. This is the default.
	Discard Policy = iota
	// Reset releases everything that the session holds and keeps the connection if the server confirms it;
	// otherwise the session is ended.
	Reset
	// ReportOnly reports and keeps the connection, locks and all: for the first rollout.
	// It never sends a statement of its own.
	ReportOnly
)

// String returns the policy's name.
func (p Policy) String() string {
	switch p {
	case Discard:
		return "Discard"
	case Reset:
		return "Reset"
	case ReportOnly:
		return "ReportOnly"
	default:
		return fmt.Sprintf("Policy(%d)", uint8(p))
	}
}

// A Probe says when the guard asks the server what a returned session holds.
type Probe uint8

const (
	// ProbeOnDoubt asks only when something ran whose effect neither its text nor its result proves. This is the default.
	ProbeOnDoubt Probe = iota
	// ProbeAlways asks at every return, one round trip each: it also sees locks
	// that were taken inside functions, procedures, triggers and views.
	ProbeAlways
	// ProbeNever never asks: what would be asked is discarded.
	ProbeNever
)

// DefaultProbeTimeout bounds everything that the guard itself sends when a connection comes back.
const DefaultProbeTimeout = time.Second

type config struct {
	dialect      Dialect
	report       func(Report) // nil: each pool's own log
	policy       Policy
	probe        Probe
	probeTimeout time.Duration
	holdLimit    time.Duration
	functions    lockFunctions
	stacks       bool
}

// WithDialect names the dialect of the servers behind the driver. pgx, lib/pq and go-sql-driver/mysql are
// recognised; every other driver, and a wrapper around one of these, needs it.
func WithDialect(d Dialect) Option {
	return optionFunc(func(c *config) error {
		if d != DialectPostgres && d != DialectMySQL {
			return fmt.Errorf("WithDialect(%d): use DialectPostgres or DialectMySQL", d)
		}
		c.dialect = d
		return nil
	})
}

// WithReport delivers every [Report] to f instead of log/slog, which gets from each pool a kind of mistake at a place at most
// once in ten seconds, and 20 lines of a kind; left_out on a line is how many of any kind had none before it. [Stats] counts
// every report. f is called while the connection is being returned to the pool, by several goroutines at once: it must not
// block, must not use that connection and must not end its goroutine (t.Fatal does). A panic in f is logged, not passed on.
func WithReport(f func(Report)) Option {
	return optionFunc(func(c *config) error {
		if f == nil {
			return errors.New("WithReport(nil): leave the option out to report to log/slog")
		}
		c.report = f
		return nil
	})
}

// WithPolicy says what happens to a connection that leaks: [Discard] (the default), [Reset] or [ReportOnly].
func WithPolicy(p Policy) Option {
	return optionFunc(func(c *config) error {
		if p > ReportOnly {
			return fmt.Errorf("WithPolicy(%d): use Discard, Reset or ReportOnly", p)
		}
		c.policy = p
		return nil
	})
}

// WithProbe says when the server is asked: [ProbeOnDoubt] (the default), [ProbeAlways] or [ProbeNever].
func WithProbe(p Probe) Option {
	return optionFunc(func(c *config) error {
		if p > ProbeNever {
			return fmt.Errorf("WithProbe(%d): use ProbeOnDoubt, ProbeAlways or ProbeNever", p)
		}
		c.probe = p
		return nil
	})
}

// WithProbeTimeout bounds everything that the guard sends at one return, probe and reset together.
// The default is [DefaultProbeTimeout]. When it runs out the connection is discarded.
func WithProbeTimeout(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("WithProbeTimeout(%v): must be positive; WithProbe(ProbeNever) sends nothing", d)
		}
		c.probeTimeout = d
		return nil
	})
}

// WithHoldLimit reports [HeldTooLong] once for each lock that is held longer than d. The default, 0, is no limit.
func WithHoldLimit(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d < 0 {
			return fmt.Errorf("WithHoldLimit(%v): must not be negative", d)
		}
		c.holdLimit = d
		return nil
	})
}

// WithLockFunctions names functions of one's own that take or release session locks, such as "app.lock_job":
// the guard cannot see inside them, so that a call makes it ask the server when the connection comes back.
func WithLockFunctions(names ...string) Option {
	return optionFunc(func(c *config) (err error) {
		c.functions, err = newLockFunctions(names)
		return err
	})
}

// WithStacks says whether the call stack is kept with each hold, for reports: on by default.
// It is taken for statements that concern session locks only.
func WithStacks(on bool) Option {
	return optionFunc(func(c *config) error {
		c.stacks = on
		return nil
	})
}

func newConfig(d driver.Driver, opts []Option) (*config, error) {
	c := &config{probeTimeout: DefaultProbeTimeout, stacks: true}
	if isNil(d) {
		return nil, errors.New("sqllock: the driver is nil: pass the driver to guard, such as stdlib.GetDefaultDriver()")
	}
	if _, ok := d.(*guardedDriver); ok {
		return nil, errors.New("sqllock: the driver is guarded already: wrap it once")
	}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o.apply(c); err != nil {
			return nil, fmt.Errorf("sqllock: %w", err)
		}
	}
	return c, c.check(d)
}

func (c *config) check(d driver.Driver) error {
	if c.dialect == 0 {
		c.dialect = dialectOf(d)
	}
	if c.dialect == 0 {
		return fmt.Errorf("sqllock: the driver %T is not one that sqllock knows: say what it speaks with WithDialect(DialectPostgres) or WithDialect(DialectMySQL)", d)
	}
	if c.policy == ReportOnly && c.probe == ProbeAlways {
		return errors.New("sqllock: WithPolicy(ReportOnly) never sends a statement and WithProbe(ProbeAlways) always does: choose one")
	}
	return nil
}

// dialectOf recognises the drivers by the import path of their type, so that none of them is imported here.
func dialectOf(d driver.Driver) Dialect {
	t := reflect.TypeOf(d)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() {
	case "github.com/jackc/pgx/v5/stdlib", "github.com/jackc/pgx/v4/stdlib", "github.com/lib/pq":
		return DialectPostgres
	case "github.com/go-sql-driver/mysql":
		return DialectMySQL
	}
	return 0
}

func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
