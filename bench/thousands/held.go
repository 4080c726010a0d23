package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/sqllock/sqllock"
)

const many = 5000

// held holds many locks at once: what that costs, and how fast they are released.
func (b *bench) held(ctx context.Context) error {
	for _, s := range b.sources() {
		if err := b.holdMany(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (b *bench) holdMany(ctx context.Context, s source) (err error) {
	db, err := sql.Open(s.driver, s.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	outside, err := sql.Open(s.driver, s.dsn)
	if err != nil {
		return err
	}
	defer outside.Close()
	l := s.locker(db)
	locks, bytes, err := acquireMany(ctx, l)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(locks)
	conns := db.Stats().OpenConnections
	n, err := s.countHeld(ctx, outside)
	if err != nil {
		return err
	}
	start := time.Now()
	err = l.Close() // releases all
	took := time.Since(start)
	left, e := s.countHeld(ctx, outside)
	if err = errors.Join(err, e); err != nil {
		return err
	}
	b.bar(fmt.Sprintf("%s: the server shows %d held (of %d), and then %d", s.name, n, many, left), n == many && left == 0)
	b.bar(fmt.Sprintf("%s: connections pinned: %d (bar 1)", s.name, conns), conns == 1)
	b.bar(fmt.Sprintf("%s: memory per held lock: %d bytes (bar 600)", s.name, bytes), bytes <= 600)
	b.bar(fmt.Sprintf("%s: release of all: %.0f ms (bar 100)", s.name, took.Seconds()*1e3), took < 100*time.Millisecond)
	return nil
}

// acquireMany also returns what each lock takes of the heap.
func acquireMany(ctx context.Context, l sqllock.Locker) (locks []*sqllock.Lock, bytes uint64, err error) {
	keys := make([]sqllock.Key, many)
	for i := range keys {
		keys[i] = sqllock.Name("many/" + strconv.Itoa(i))
	}
	locks = make([]*sqllock.Lock, many)
	before := heap()
	errs := make(chan error, 50)
	for w := range 50 {
		go func() {
			var err error
			for i := w; i < many && err == nil; i += 50 {
				locks[i], err = l.TryAcquire(ctx, keys[i])
			}
			errs <- err
		}()
	}
	for range 50 {
		if e := <-errs; e != nil {
			err = e
		}
	}
	after := heap()
	runtime.KeepAlive(keys)
	return locks, (after - min(before, after)) / many, err
}

func heap() uint64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// countHeld looks from outside.
func (s source) countHeld(ctx context.Context, outside *sql.DB) (n int, err error) {
	query := "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
	if !s.postgres {
		return s.countNamed(ctx, outside)
	}
	err = outside.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

// countNamed asks for each name: MariaDB has no table of them without a plugin.
func (s source) countNamed(ctx context.Context, outside *sql.DB) (n int, err error) {
	for i := 0; i < many; i += 250 {
		query := "SELECT 0"
		for j := i; j < i+250; j++ {
			query += " + (IS_FREE_LOCK('" + sqllock.Name("many/"+strconv.Itoa(j)).MySQLName() + "') = 0)"
		}
		var some int
		if err := outside.QueryRowContext(ctx, query).Scan(&some); err != nil {
			return 0, err
		}
		n += some
	}
	return n, nil
}
