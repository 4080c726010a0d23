package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3/lock"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/bench/contest"
)

const (
	maxRatio  = 1.10
	maxAllocs = 12
	perTurn   = 4 // pairs
)

// contestant is one way to take a lock and give it back.
type contestant struct {
	name string
	side contest.Side
}

// uncontended measures TryAcquire and Release beside the two raw statements on a kept connection.
func uncontended(t *table, s source, dsn string, e effort) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // as a request's: with an end
	defer cancel()
	all, err := s.contestants(ctx, dsn)
	if err != nil {
		return err
	}
	sides := make([]contest.Side, len(all))
	for i, c := range all {
		sides[i] = c.side
	}
	defer contest.Close(sides)
	var times contest.Times
	err = contest.OnOneCore(func() (err error) { // or waking the other one is what is measured
		if _, err = contest.Run(sides, 10, perTurn); err == nil { // warm
			times, err = contest.Run(sides, e.rounds, perTurn)
		}
		return err
	})
	if err != nil {
		return err
	}
	raw, err := sides[0].Allocs(200)
	if err != nil {
		return err
	}
	for i, c := range all {
		allocs, err := c.side.Allocs(200)
		if err != nil {
			return err
		}
		bar, ratio := "", times.Ratio(i, 0)
		if c.name == ours || c.name == oursGuarded {
			bar = fmt.Sprintf("%.2fx, %d allocs", maxRatio, maxAllocs)
		}
		t.row(c.name, fmt.Sprintf("%7.1f us  %5.2fx  %+4.0f allocs", times.Median(i)/1e3, ratio, allocs-raw), bar,
			ratio <= maxRatio && allocs-raw <= maxAllocs+0.5, times.Ratio(1, 0) > maxRatio || times.Ratio(0, 1) > maxRatio)
	}
	return nil
}

const (
	ours        = "sqllock: TryAcquire, Release"
	oursGuarded = "the same on a guarded pool"
)

func (s source) contestants(ctx context.Context, dsn string) (all []contestant, err error) {
	add := func(name, driver string, make func(*sql.DB) (contest.Side, error)) {
		db, e := sql.Open(driver, dsn)
		if e == nil {
			var side contest.Side
			if side, e = make(db); e == nil {
				side.Close = db.Close
				all = append(all, contestant{name, side})
			}
		}
		err = errors.Join(err, e)
	}
	kept := func(db *sql.DB) (contest.Side, error) { return s.kept(ctx, db) }
	add("the raw statements on a kept connection", s.driver, kept)
	add("control: the same again", s.driver, kept)
	add(ours, s.driver, func(db *sql.DB) (contest.Side, error) { return s.ours(ctx, db), nil })
	if s.guarded != "" {
		add(oursGuarded, s.guarded, func(db *sql.DB) (contest.Side, error) { return s.ours(ctx, db), nil })
	}
	add("go-pglock's way: a connection each", s.driver, func(db *sql.DB) (contest.Side, error) { return s.borrowed(ctx, db), nil })
	if s.postgres {
		add("goose's session locker", s.driver, func(db *sql.DB) (contest.Side, error) { return goose(ctx, db) })
	}
	return all, err
}

func (s source) kept(ctx context.Context, db *sql.DB) (contest.Side, error) {
	c, err := db.Conn(ctx)
	return contest.Side{Run: func(int) error { return s.pair(ctx, c) }}, err
}

func (s source) pair(ctx context.Context, c *sql.Conn) error {
	try, unlock := s.raw()
	for _, query := range []string{try, unlock} {
		var ok bool
		if err := c.QueryRowContext(ctx, query, s.args()...).Scan(&ok); err != nil || !ok {
			return fmt.Errorf("%s: %v, %w", query, ok, err)
		}
	}
	return nil
}

// borrowed is what go-pglock and most home-made helpers do: a connection of the pool for each lock.
func (s source) borrowed(ctx context.Context, db *sql.DB) contest.Side {
	return contest.Side{Run: func(int) error {
		c, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		return errors.Join(s.pair(ctx, c), c.Close())
	}}
}

func (s source) ours(ctx context.Context, db *sql.DB) contest.Side {
	l, key := s.locker(db), sqllock.Name("ours-"+s.driver)
	return contest.Side{Run: func(int) error {
		lock, err := l.TryAcquire(ctx, key)
		if err != nil {
			return err
		}
		return lock.Release()
	}}
}

func goose(ctx context.Context, db *sql.DB) (contest.Side, error) {
	l, err := lock.NewPostgresSessionLocker()
	return contest.Side{Run: func(int) error {
		c, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		return errors.Join(l.SessionLock(ctx, c), l.SessionUnlock(ctx, c), c.Close())
	}}, err
}
