package sqllock

import (
	"errors"
	"fmt"
	"time"
)

// A LockerOption changes how [NewPostgres] or [NewMySQL] hold their locks. An option that contradicts another, or the
// database, is an error of every acquire.
type LockerOption interface{ applyLocker(*lockerConfig) error }

type lockerOption func(*lockerConfig) error

func (f lockerOption) applyLocker(c *lockerConfig) error { return f(c) }

type lockerConfig struct {
	keepalive time.Duration
	timeout   time.Duration // of everything that a pin sends
	silence   time.Duration
	dedicated bool
	token     bool
	database  string // MySQL: the names are kept apart by it
	ownLocks  bool   // MySQL: a server whose locks are its own will do
}

// The defaults of a locker.
const (
	DefaultKeepalive    = 15 * time.Second
	DefaultSilenceBound = 60 * time.Second

	maxTimeout = 5 * time.Second
)

// WithKeepalive sets how often a quiet session that holds locks is asked whether it still lives; the default is
// [DefaultKeepalive], or a quarter of a shorter silence bound. With pgxlock or mysqllock a session that the server ends is
// noticed at once; the keepalive is for networks that go silent, and for other drivers. The server has half of what
// the silence bound leaves, at most 5 seconds, to answer: then the lock counts as lost.
func WithKeepalive(d time.Duration) LockerOption {
	return lockerOption(func(c *lockerConfig) error {
		if d <= 0 {
			return fmt.Errorf("WithKeepalive(%v): must be positive", d)
		}
		c.keepalive = d
		return nil
	})
}

// WithSilenceBound sets how long the server keeps the locks of a session that it hears nothing of; the default is
// [DefaultSilenceBound], or four times a longer keepalive. It must be at least a second, and counts in whole seconds on MySQL.
// The holder is told before the bound runs out. On PostgreSQL it is idle_session_timeout, or TCP keepalives before
// version 14, which a holder that is only stopped still answers; on MySQL wait_timeout. A pinned session has it instead of its own, which it gets back at the end.
func WithSilenceBound(d time.Duration) LockerOption {
	return lockerOption(func(c *lockerConfig) error {
		if d < time.Second {
			return fmt.Errorf("WithSilenceBound(%v): must be at least a second", d)
		}
		c.silence = d
		return nil
	})
}

// WithDedicatedConn gives every lock a connection of its own. Without it the uncontended locks of a locker share
// one, and are all lost at once if it breaks.
func WithDedicatedConn() LockerOption {
	return lockerOption(func(c *lockerConfig) error {
		c.dedicated = true
		return nil
	})
}

// WithToken makes [Lock.Token] a fencing token, on PostgreSQL: a transaction ID that is taken after the grant, so that
// it is greater than that of every earlier holder. It costs a transaction ID and a WAL record a lock. On MySQL it is
// refused with [ErrUnsupported].
func WithToken() LockerOption {
	return lockerOption(func(c *lockerConfig) error {
		c.token = true
		return nil
	})
}

// WithDatabase keeps a MySQL locker's names apart from those of other databases on the same server, whose named
// locks otherwise share one space of names. PostgreSQL's locks are per database by themselves: there it is an error.
func WithDatabase(name string) LockerOption {
	return lockerOption(func(c *lockerConfig) error {
		c.database = name
		return nil
	})
}

// WithServerLocks has a MySQL locker accept a server that is read-only, or a Galera node, whose named locks are known to
// nobody else: for programs that all connect to this very server. On PostgreSQL it is an error: a standby is always
// refused.
func WithServerLocks() LockerOption {
	return lockerOption(func(c *lockerConfig) error {
		c.ownLocks = true
		return nil
	})
}

// newLockerConfig fits what was not given into what was.
func newLockerConfig(opts []LockerOption) (c lockerConfig, err error) {
	for _, o := range opts {
		if o != nil {
			err = errors.Join(err, o.applyLocker(&c))
		}
	}
	if c.silence == 0 {
		c.silence = max(DefaultSilenceBound, 4*c.keepalive)
	}
	if c.keepalive == 0 {
		c.keepalive = min(DefaultKeepalive, c.silence/4)
	}
	c.timeout = min(maxTimeout, (c.silence-c.keepalive)/2)
	if c.timeout < minTimeout {
		err = errors.Join(err, fmt.Errorf("WithKeepalive(%v) does not fit into WithSilenceBound(%v): the holder must be told before the server lets another in", c.keepalive, c.silence))
	}
	if err != nil {
		err = fmt.Errorf("sqllock: %w", err)
	}
	return c, err
}

// minTimeout: with less time to answer in, a busy moment of a healthy server would cost a lock.
const minTimeout = 50 * time.Millisecond
