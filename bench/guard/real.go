package main

import (
	"database/sql"
	"fmt"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/bench/contest"
)

// A race is one question put to every rival on a real server: how many times the bare pool's time do you take?
type race struct {
	what    string
	prepare func(*sql.DB) (contest.Side, error)
	slack   float64 // how far the guard may be off
}

func racesOf(d sqllock.Dialect) []race {
	return []race{
		{"Query", queries(always("SELECT 1")), 0.05},
		{"Query with an argument", queries(always(parametrised(d)), int64(1)), 0.05},
		{"lock and unlock", pinned(func(c *sql.Conn) contest.Side { return lockPair(c, d) }), 0.10},
	}
}

func always(text string) texter { return func(int) string { return text } }

func parametrised(d sqllock.Dialect) string {
	if d == sqllock.DialectMySQL {
		return "SELECT ?"
	}
	return "SELECT $1::int"
}

func lockPair(c *sql.Conn, d sqllock.Dialect) contest.Side {
	calls, key := callsOf(d), keyOf(d, 42)
	acquire, release := one(c, calls.acquire, key), one(c, calls.release, key)
	return contest.Side{Run: func(i int) error {
		if err := acquire(i); err != nil {
			return err
		}
		return release(i)
	}}
}

// run repeats the contest over new connections: one can be a little faster than the next for as long as it lives.
func (c race) run(s source, e effort) (row, error) {
	var all contest.Times
	for range e.reconnects {
		times, err := c.once(s, e)
		if err != nil {
			return row{}, err
		}
		all = all.Append(times)
	}
	return c.row(all), nil
}

func (c race) once(s source, e effort) (contest.Times, error) {
	p, err := open(s)
	if err != nil {
		return nil, err
	}
	defer p.close()
	sides, err := p.sides(c.prepare)
	if err != nil {
		return nil, err
	}
	defer contest.Close(sides)
	if _, err := contest.Run(sides, 1, e.perTurn); err != nil { // to warm up
		return nil, err
	}
	return contest.Run(sides, e.serverRounds, e.perTurn)
}

func (c race) row(times contest.Times) row {
	r := row{what: c.what, bar: fmt.Sprintf("%.2fx", 1+c.slack)}
	var ratio [rivals]float64
	for i := range ratio {
		ratio[i] = times.Ratio(i, bare)
		r.cells[i] = fmt.Sprintf("%.3fx", ratio[i])
	}
	r.cells[bare] = fmt.Sprintf("%.1f us", times.Median(bare)/1000)
	r.verdict = judge(ratio[guarded] <= 1+c.slack, ratio[control] > 1+c.slack)
	return r
}
