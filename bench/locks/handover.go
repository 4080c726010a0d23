package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/bench/contest"
)

const (
	roleEnv       = "SQLLOCK_BENCH_WAITER" // index of the source, "|", DSN
	maxHandover50 = 3 * time.Millisecond
	maxHandover99 = 20 * time.Millisecond
	maxStatements = 5 // a second and waiter
)

var handoverKey = sqllock.Name("bench-handover")

// waiter is the other process. For each line that it reads it acquires the lock, says when it had it, and releases it.
func waiter(role string) error {
	i, err := strconv.Atoi(role[:1])
	if err != nil {
		return err
	}
	s := sources()[i]
	db, err := sql.Open(s.driver, role[2:])
	if err != nil {
		return err
	}
	defer db.Close()
	l := s.locker(db)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		lock, err := l.Acquire(context.Background(), handoverKey)
		if err != nil {
			return err
		}
		fmt.Println(time.Now().UnixNano())
		if err := lock.Release(); err != nil {
			return err
		}
	}
	return l.Close()
}

// other starts the other process.
func other(s source, dsn string) (say io.WriteCloser, said *bufio.Scanner, end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	i := 0
	for sources()[i].name != s.name {
		i++
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d|%s", roleEnv, i, dsn))
	cmd.Stderr = os.Stderr
	in, e1 := cmd.StdinPipe()
	out, e2 := cmd.StdoutPipe()
	if err := errors.Join(e1, e2, cmd.Start()); err != nil {
		return nil, nil, nil, err
	}
	return in, bufio.NewScanner(out), func() { in.Close(); cmd.Wait() }, nil
}

// handedOver measures from the call of Release to the end of Acquire in another process, and counts what that sends
// while it waits.
func handedOver(t *table, s source, dsn string, e effort) error {
	ctx := context.Background()
	db, err := sql.Open(s.driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	l := s.locker(db)
	defer l.Close()
	say, said, end, err := other(s, dsn)
	if err != nil {
		return err
	}
	defer end()
	var times []float64
	once := func(wait func() error) error {
		lock, err := l.Acquire(ctx, handoverKey)
		if err != nil {
			return err
		}
		fmt.Fprintln(say)
		if err := wait(); err != nil {
			return err
		}
		start := time.Now().UnixNano()
		if err := lock.Release(); err != nil || !said.Scan() {
			return fmt.Errorf("the other process has ended: %w", err)
		}
		got, err := strconv.ParseInt(said.Text(), 10, 64)
		times = append(times, float64(got-start))
		return err
	}
	for range e.handovers { // at any point of a slice
		if err := once(func() error { time.Sleep(time.Duration(30+rand.IntN(300)) * time.Millisecond); return nil }); err != nil {
			return err
		}
	}
	rate := 0.0
	err = once(func() (err error) { rate, err = s.rate(ctx, db, e.waitSeconds); return err })
	times = times[:len(times)-1]
	p50, p99 := time.Duration(contest.Quantile(times, 0.5)), time.Duration(contest.Quantile(times, 0.99))
	t.row("until the waiter has it, p50", p50.Round(time.Microsecond).String(), maxHandover50.String(), p50 <= maxHandover50, false)
	t.row("p99", p99.Round(time.Microsecond).String(), maxHandover99.String(), p99 <= maxHandover99, false)
	t.row("statements a second and waiter", fmt.Sprintf("%.1f", rate), fmt.Sprint(maxStatements), rate <= maxStatements, false)
	return err
}

// rate counts the statements that the server runs for others, for a while.
func (s source) rate(ctx context.Context, db *sql.DB, seconds int) (float64, error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	time.Sleep(time.Second) // the waiter has come to its second slice
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	if s.postgres {
		return s.sample(ctx, c, end, seconds)
	}
	before, err := questions(ctx, c)
	if err != nil {
		return 0, err
	}
	time.Sleep(time.Until(end))
	after, err := questions(ctx, c)
	return float64(after-before-1) / float64(seconds), err
}

// sample looks at what PostgreSQL's sessions are at every few milliseconds: its counters come late, or not at all for
// sessions that use no table. What is shorter than that and between two looks is not seen.
func (s source) sample(ctx context.Context, c *sql.Conn, end time.Time, seconds int) (float64, error) {
	seen := map[string]bool{}
	for time.Now().Before(end) {
		rows, err := c.QueryContext(ctx, "SELECT pid || ' ' || query_start FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%advisory_lock%'")
		if err != nil {
			return 0, err
		}
		for rows.Next() {
			var one string
			if err := rows.Scan(&one); err != nil {
				return 0, err
			}
			seen[one] = true
		}
		if err := rows.Close(); err != nil {
			return 0, err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return float64(len(seen)) / float64(seconds), nil
}

func questions(ctx context.Context, c *sql.Conn) (n int64, err error) {
	var name string
	err = c.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n)
	return n, err
}
