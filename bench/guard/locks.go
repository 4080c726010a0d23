package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/bench/contest"
)

// What the guard may add to a statement that takes or releases a lock.
const lockNS, lockAllocs = 3000, 25

// lockCalls are the statements that a dialect has for locks; the key is their parameter.
type lockCalls struct {
	acquire, release string
	wait             string // until the lock is free
	session          string // the session's own number
	waiting          string // whether the session of a number waits for a lock
}

func callsOf(d sqllock.Dialect) lockCalls {
	if d == sqllock.DialectMySQL {
		return lockCalls{
			acquire: "SELECT GET_LOCK(?, 0)",
			release: "SELECT RELEASE_LOCK(?)",
			wait:    "SELECT GET_LOCK(?, 5)",
			session: "SELECT CONNECTION_ID()",
			waiting: "SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock' AND id = ?",
		}
	}
	return lockCalls{
		acquire: "SELECT pg_try_advisory_lock($1)",
		release: "SELECT pg_advisory_unlock($1)",
		wait:    "SELECT pg_advisory_lock($1)",
		session: "SELECT pg_backend_pid()",
		waiting: "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $1",
	}
}

// keyOf returns a key that the dialect's calls take.
func keyOf(d sqllock.Dialect, n int) any {
	if d == sqllock.DialectMySQL {
		return fmt.Sprintf("bench-%d", n)
	}
	return int64(n)
}

// lockDuels are about the statements that take and release a lock, on a pinned connection, as one has to.
func lockDuels(d sqllock.Dialect) []duel {
	calls, key := callsOf(d), keyOf(d, 42)
	return []duel{
		{what: calls.acquire, maxNS: lockNS, maxAllocs: lockAllocs, prepare: pinned(func(c *sql.Conn) contest.Side {
			return contest.Side{Run: one(c, calls.acquire, key), After: one(c, calls.release, key)}
		})},
		{what: calls.release, maxNS: lockNS, maxAllocs: lockAllocs, prepare: pinned(func(c *sql.Conn) contest.Side {
			return contest.Side{Before: one(c, calls.acquire, key), Run: one(c, calls.release, key)}
		})},
	}
}

// pinned prepares a side that works on one connection and gives it back when it is done.
func pinned(on func(*sql.Conn) contest.Side) func(*sql.DB) (contest.Side, error) {
	return func(db *sql.DB) (contest.Side, error) {
		c, err := db.Conn(context.Background())
		if err != nil {
			return contest.Side{}, err
		}
		s := on(c)
		s.Close = c.Close
		return s, nil
	}
}

// one returns a call of a lock function, which has to succeed.
func one(c *sql.Conn, query string, args ...any) func(int) error {
	ctx := context.Background()
	return func(int) error {
		var ok bool
		if err := c.QueryRowContext(ctx, query, args...).Scan(&ok); err != nil {
			return err
		}
		if !ok {
			return errors.New(query + ": not granted, or not held")
		}
		return nil
	}
}

// cleanReturn counts what is sent when a connection comes back on which everything was released.
func cleanReturn(s source) (row, error) {
	r := row{what: "return of a clean connection: statements sent", bar: "0"}
	p, err := open(s)
	if err != nil {
		return r, err
	}
	defer p.close()
	var sent [rivals]int64
	for i, db := range p {
		if sent[i], err = sentAtReturn(s, db); err != nil {
			return r, err
		}
		r.cells[i] = fmt.Sprint(sent[i])
	}
	r.verdict = judge(sent[guarded] == 0, false)
	return r, nil
}

func sentAtReturn(s source, db *sql.DB) (int64, error) {
	ctx := context.Background()
	c, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	calls, key := callsOf(s.dialect), keyOf(s.dialect, 42)
	if err := one(c, calls.acquire, key)(0); err != nil {
		return 0, err
	}
	if err := one(c, calls.release, key)(0); err != nil {
		return 0, err
	}
	sent := &s.driver.(*nullDriver).sent
	before := sent.Load()
	err = c.Close()
	return sent.Load() - before, err
}
