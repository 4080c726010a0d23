package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sqllock/sqllock/bench/contest"
)

const (
	maxP99 = 10.0 // ms
	// patience is how long a rival is waited for. The others keep a leaked lock as long as the connection is idle.
	patience = 200 * time.Millisecond
)

// errStillHeld says that the lock did not come free.
var errStillHeld = errors.New("the lock is still held")

// leakToFree measures how long a leaked lock keeps another session waiting: from the Close that returns the
// holder's connection to its pool until the waiting session has the lock.
func leakToFree(s source, leaks int) (rows []row, err error) {
	median := row{what: fmt.Sprintf("leak to lock free, median of %d", leaks)}
	p99 := row{what: "leak to lock free, p99", bar: fmt.Sprintf("%.0f ms", maxP99)}
	for rival := range rivals {
		n := leaks
		if rival != guarded {
			n = 1
		}
		took, err := leaksOf(s, rival, n)
		switch {
		case errors.Is(err, errStillHeld):
			median.cells[rival] = "> " + patience.String()
			p99.cells[rival] = median.cells[rival]
		case err != nil:
			return nil, err
		default:
			median.cells[rival] = fmt.Sprintf("%.2f ms", contest.Quantile(took, 0.5))
			p99.cells[rival] = fmt.Sprintf("%.2f ms", contest.Quantile(took, 0.99))
		}
		if rival == guarded {
			p99.verdict = judge(err == nil && contest.Quantile(took, 0.99) <= maxP99, false)
		}
	}
	return []row{median, p99}, nil
}

// keys counts the keys that leaked. No key is used twice: a session that was closed may hold its own a moment longer.
var keys = 1000

// leaksOf returns the time that each of n leaks took, in ms.
func leaksOf(s source, rival, n int) ([]float64, error) {
	l, err := newLeaker(s, rival)
	if err != nil {
		return nil, err
	}
	defer l.close()
	took := make([]float64, n)
	for i := range took {
		keys++
		d, err := l.leak(keyOf(s.dialect, keys))
		if err != nil {
			return nil, err
		}
		took[i] = float64(d) / float64(time.Millisecond)
	}
	return took, nil
}

// A leaker lets a pool leak while a session from elsewhere waits.
type leaker struct {
	calls  lockCalls
	holder *sql.DB   // the rival's pool
	others *sql.DB   // a pool that nobody wraps
	waiter *sql.Conn // of others
	id     int64     // of the waiter's session
}

func newLeaker(s source, rival int) (*leaker, error) {
	l := &leaker{calls: callsOf(s.dialect)}
	ctx := context.Background()
	var err error
	if l.holder, err = openOne(s, rival); err != nil {
		return nil, err
	}
	if l.others, err = openOne(s, bare); err != nil {
		return nil, errors.Join(err, l.holder.Close())
	}
	l.others.SetMaxOpenConns(2) // the waiter's, and one to look on
	if l.waiter, err = l.others.Conn(ctx); err == nil {
		err = l.waiter.QueryRowContext(ctx, l.calls.session).Scan(&l.id)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *leaker) close() error {
	if l.waiter != nil {
		l.waiter.Close()
	}
	return errors.Join(l.others.Close(), l.holder.Close())
}

type grant struct {
	at  time.Time
	err error
}

// leak takes the lock, lets the waiter wait for it, and returns the connection without releasing it.
func (l *leaker) leak(key any) (time.Duration, error) {
	ctx := context.Background()
	c, err := l.holder.Conn(ctx)
	if err != nil {
		return 0, err
	}
	if err := one(c, l.calls.acquire, key)(0); err != nil {
		return 0, errors.Join(err, c.Close())
	}
	granted := make(chan grant, 1)
	go func() {
		_, err := l.waiter.ExecContext(ctx, l.calls.wait, key)
		granted <- grant{time.Now(), err}
	}()
	if err := l.awaitWaiter(ctx); err != nil {
		return 0, errors.Join(err, c.Close())
	}
	start := time.Now()
	c.Close()
	select {
	case g := <-granted:
		return g.at.Sub(start), errors.Join(g.err, one(l.waiter, l.calls.release, key)(0))
	case <-time.After(patience):
		l.holder.Close() // ends the session, and with it the lock
		<-granted
		return 0, errStillHeld
	}
}

// awaitWaiter returns when the server says that the waiter waits.
func (l *leaker) awaitWaiter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		var n int
		if err := l.others.QueryRowContext(ctx, l.calls.waiting, l.id).Scan(&n); err != nil || n > 0 {
			return err
		}
		time.Sleep(100 * time.Microsecond)
	}
}
