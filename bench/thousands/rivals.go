package main

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/sqllock/sqllock"
)

// A rival acquires and releases locks.
type rival struct {
	name string
	most int // goroutines: each takes a connection; 0: any number
	open func(goroutines int) (*opened, error)
}

// opened is a rival at work.
type opened struct {
	// pair acquires and releases a key of which nobody else knows, for a goroutine.
	pair func(ctx context.Context, goroutine int, key string) error
	// lock waits for a key.
	lock func(ctx context.Context, key string) (unlock func() error, err error)
	// close ends it.
	close func() error
}

// expiry is far more than a benchmark takes: extending is not what is measured.
const expiry = time.Minute

// mostRaw is how many connections the servers are asked for by rivals that pin one each: some stay open for a moment after their end.
const mostRaw = 16

// lockers is sqllock with its defaults.
func (s source) lockers() rival { return s.withOptions("sqllock, "+s.name, 0) }

// dedicated is sqllock with a connection for each lock.
func (s source) dedicated() rival {
	return s.withOptions("sqllock, a connection each, "+s.name, mostRaw, sqllock.WithDedicatedConn())
}

func (s source) withOptions(name string, most int, opts ...sqllock.LockerOption) rival {
	return rival{name: name, most: most, open: func(int) (*opened, error) {
		db, err := sql.Open(s.driver, s.dsn)
		if err != nil {
			return nil, err
		}
		db.SetMaxIdleConns(mostRaw)
		l := s.locker(db, opts...)
		return &opened{
			pair: func(ctx context.Context, _ int, key string) error {
				lock, err := l.TryAcquire(ctx, sqllock.Name(key))
				if err != nil {
					return err
				}
				return lock.Release()
			},
			lock: func(ctx context.Context, key string) (func() error, error) {
				lock, err := l.Acquire(ctx, sqllock.Name(key))
				if err != nil {
					return nil, err
				}
				return lock.Release, nil
			},
			close: func() error { return errors.Join(l.Close(), db.Close()) },
		}, nil
	}}
}

// raw is what one would write without a library, on a connection for each goroutine.
func (s source) raw() rival {
	return rival{name: "raw statements, a connection each, " + s.name, most: mostRaw, open: func(n int) (*opened, error) {
		db, err := sql.Open(s.driver, s.dsn)
		if err != nil {
			return nil, err
		}
		conns := make([]*sql.Conn, n)
		closeAll := func() (err error) {
			for _, c := range conns {
				if c != nil {
					err = errors.Join(err, c.Close())
				}
			}
			return errors.Join(err, db.Close())
		}
		for i := range conns {
			if conns[i], err = db.Conn(context.Background()); err != nil {
				return nil, errors.Join(err, closeAll())
			}
		}
		pair := func(ctx context.Context, i int, key string) error {
			var ok bool
			try, unlock, args := s.statements(key)
			if err := conns[i].QueryRowContext(ctx, try, args...).Scan(&ok); err != nil {
				return err
			}
			return conns[i].QueryRowContext(ctx, unlock, args...).Scan(&ok)
		}
		return &opened{pair: pair, close: closeAll}, nil
	}}
}

func goredisRival(name, addr string, with func(c *redis.Client, o *opened)) rival {
	return rival{name: name, open: func(n int) (*opened, error) {
		c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: max(10, min(n, 256))})
		o := &opened{close: c.Close}
		with(c, o)
		return o, c.Ping(context.Background()).Err()
	}}
}

func redsyncRival(addr string) rival {
	return goredisRival("redsync", addr, func(c *redis.Client, o *opened) {
		rs := redsync.New(goredis.NewPool(c))
		o.pair = func(ctx context.Context, _ int, key string) error {
			m := rs.NewMutex(key, redsync.WithExpiry(expiry))
			if err := m.TryLockContext(ctx); err != nil {
				return err
			}
			_, err := m.UnlockContext(ctx)
			return err
		}
		o.lock = func(ctx context.Context, key string) (func() error, error) {
			m := rs.NewMutex(key, redsync.WithExpiry(expiry), redsync.WithTries(1<<30))
			return func() error { _, err := m.UnlockContext(ctx); return err }, m.LockContext(ctx)
		}
	})
}

func redislockRival(addr string) rival {
	return goredisRival("bsm/redislock", addr, func(c *redis.Client, o *opened) {
		l := redislock.New(c)
		o.pair = func(ctx context.Context, _ int, key string) error {
			lock, err := l.Obtain(ctx, key, expiry, nil)
			if err != nil {
				return err
			}
			return lock.Release(ctx)
		}
	})
}

// rueidisRival sends the two commands of a lock and nothing else; the client pipelines what comes at once.
func rueidisRival(addr string) rival {
	return rival{name: "rueidis, auto-pipelined", open: func(int) (*opened, error) {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
		if err != nil {
			return nil, err
		}
		unlock := rueidis.NewLuaScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
		var token atomic.Int64
		pair := func(ctx context.Context, _ int, key string) error {
			mine := strconv.FormatInt(token.Add(1), 10)
			if err := c.Do(ctx, c.B().Set().Key(key).Value(mine).Nx().Px(expiry).Build()).Error(); err != nil {
				return err
			}
			return unlock.Exec(ctx, c, []string{key}, []string{mine}).Error()
		}
		return &opened{pair: pair, close: func() error { c.Close(); return nil }}, nil
	}}
}

func rueidislockRival(addr string) rival {
	return rival{name: "rueidislock", open: func(int) (*opened, error) {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
			KeyMajority: 1, KeyValidity: expiry, NoLoopTracking: true})
		if err != nil {
			return nil, err
		}
		return &opened{
			pair: func(ctx context.Context, _ int, key string) error {
				_, unlock, err := l.TryWithContext(ctx, key)
				if err == nil {
					unlock()
				}
				return err
			},
			lock: func(ctx context.Context, key string) (func() error, error) {
				_, unlock, err := l.WithContext(ctx, key)
				return func() error { unlock(); return nil }, err
			},
			close: func() error { l.Close(); return nil },
		}, nil
	}}
}
