package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/bench/contest"
)

const maxLoss99 = 100 * time.Millisecond

// lost measures from before the server is told to end the session until the holder's context has ended.
func lost(t *table, s source, dsn string, e effort) error {
	if s.driver == "postgres" {
		t.row("until the holder knows", "its next keepalive: lib/pq has no adapter", "", false, false)
		return nil
	}
	ctx := context.Background()
	db, err := sql.Open(s.driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	outside, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer outside.Close()
	l := s.locker(db)
	defer l.Close()
	var times []float64
	for range e.losses {
		d, err := s.loseOnce(ctx, outside, l)
		if err != nil {
			return err
		}
		times = append(times, float64(d))
	}
	p50, p99 := time.Duration(contest.Quantile(times, 0.5)), time.Duration(contest.Quantile(times, 0.99))
	t.row("until the holder knows, p50", p50.Round(time.Microsecond).String(), "", false, false)
	t.row("p99", p99.Round(time.Microsecond).String(), maxLoss99.String(), p99 <= maxLoss99, false)
	return nil
}

func (s source) loseOnce(ctx context.Context, outside *sql.Conn, l sqllock.Locker) (time.Duration, error) {
	key := sqllock.Name("bench-lost")
	lock, err := l.Acquire(ctx, key)
	if err != nil {
		return 0, err
	}
	time.Sleep(20 * time.Millisecond) // a quiet holder
	start := time.Now()
	if err := s.end(ctx, outside, key); err != nil {
		return 0, err
	}
	select {
	case <-lock.Context().Done():
	case <-time.After(10 * time.Second):
		return 0, errors.New("the holder was not told")
	}
	d := time.Since(start)
	if err := lock.Release(); !errors.Is(err, sqllock.ErrLost) {
		return 0, errors.Join(errors.New("release does not say that it was lost"), err)
	}
	return d, nil
}
