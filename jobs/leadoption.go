package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sqllock/sqllock"
)

// The defaults of [Lead].
const (
	// DefaultStepUpDelay is how long it takes at most until the holder of a lock notices the loss, with a locker's default
	// options: the keepalive, and the 5 seconds that the server has to answer it.
	DefaultStepUpDelay = sqllock.DefaultKeepalive + 5*time.Second
	DefaultCampaign    = 2 * time.Second
)

// A LeadOption changes how [Lead] works.
type LeadOption interface{ applyLead(*leadConfig) error }

type leadOption func(*leadConfig) error

func (f leadOption) applyLead(c *leadConfig) error { return f(c) }

type leadConfig struct {
	delay    time.Duration
	every    time.Duration
	report   func(error)
	writable *sql.DB
}

func (c *leadConfig) set(opts []LeadOption) (err error) {
	c.delay, c.every = DefaultStepUpDelay, DefaultCampaign
	c.report = func(err error) { slog.Warn(err.Error()) }
	for _, o := range opts {
		if o != nil {
			err = errors.Join(err, o.applyLead(c))
		}
	}
	return err
}

// WithStepUpDelay sets how long a newly elected leader waits, holding the lock, before it leads: long enough for the one before to
// have noticed that it lost the lock. The default, [DefaultStepUpDelay], fits lockers with default options; with
// sqllock.WithKeepalive(k) it is k and up to 5 seconds. 0 is for what may overlap.
func WithStepUpDelay(d time.Duration) LeadOption {
	return leadOption(func(c *leadConfig) error {
		c.delay = d
		if d < 0 {
			return fmt.Errorf("jobs: WithStepUpDelay(%v): must not be negative", d)
		}
		return nil
	})
}

// WithCampaign sets how often the lock is tried, on average, by those who do not lead, and how often [WithWritable] asks.
// Each wait is a random one between half of it and one and a half. The default is [DefaultCampaign].
func WithCampaign(every time.Duration) LeadOption {
	return leadOption(func(c *leadConfig) error {
		c.every = every
		if every < time.Millisecond {
			return fmt.Errorf("jobs: WithCampaign(%v): must be at least a millisecond", every)
		}
		return nil
	})
}

// WithLeadReport sets who is told about errors that the campaign survives, and about the end of a term. It must not block.
// The default is log/slog, at Warn.
func WithLeadReport(report func(error)) LeadOption {
	return leadOption(func(c *leadConfig) error {
		c.report = report
		if report == nil {
			return errors.New("jobs: WithLeadReport(nil): pass a function that does nothing instead")
		}
		return nil
	})
}

// WithWritable asks the server, before and while it leads, whether it takes writes: a leader on a server that has become
// a replica or read-only steps down, as if the lock was lost, with the cause [ErrReadOnly]. It costs one statement through db
// each [WithCampaign]. An error of that statement is reported and does not end the term: if the server is gone, so is the lock.
func WithWritable(db *sql.DB) LeadOption {
	return leadOption(func(c *leadConfig) error {
		c.writable = db
		if db == nil {
			return errors.New("jobs: WithWritable(nil): pass the *sql.DB that the leader writes to")
		}
		return nil
	})
}

// ErrReadOnly says that the server takes no writes. It comes wrapped: use [errors.Is].
var ErrReadOnly = errors.New("jobs: the server is a replica or read-only")

// check returns ErrReadOnly, or the error of asking.
func (c *leadConfig) check(ctx context.Context) error {
	if c.writable == nil {
		return nil
	}
	query := "SELECT @@GLOBAL.read_only NOT IN ('0', 'OFF')"
	postgres, err := askPostgres(ctx, c.writable)
	if postgres {
		query = "SELECT pg_catalog.pg_is_in_recovery() OR pg_catalog.current_setting('transaction_read_only') = 'on'"
	}
	var readOnly bool
	if err == nil {
		err = c.writable.QueryRowContext(ctx, query).Scan(&readOnly)
	}
	if err == nil && readOnly {
		err = ErrReadOnly
	}
	return err
}

// watch asks for as long as ctx lasts. stop ends that and returns why it has deposed the leader, if it has.
func (c *leadConfig) watch(ctx context.Context, depose func(error)) (stop func() error) {
	if c.writable == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	end := make(chan error, 1)
	go func() {
		for sleep(ctx, c.every) == nil {
			err := c.check(ctx)
			if errors.Is(err, ErrReadOnly) {
				depose(err)
				end <- err
				return
			}
			if err != nil && ctx.Err() == nil {
				c.report(fmt.Errorf("jobs: whether the server takes writes: %w", err))
			}
		}
		end <- nil
	}()
	return func() error {
		cancel()
		return <-end
	}
}
