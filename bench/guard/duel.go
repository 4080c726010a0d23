package main

import (
	"database/sql"
	"fmt"
	"math"

	"github.com/sqllock/sqllock/bench/contest"
)

// A duel is one question put to every rival over the null driver: what do you add to this call?
type duel struct {
	what    string
	prepare func(*sql.DB) (contest.Side, error)
	// maxNS and maxAllocs are what the guard may add. Without maxNS there is no bar.
	maxNS, maxAllocs float64
}

func (d duel) fight(p pools, e effort) (row, error) {
	sides, err := p.sides(d.prepare)
	if err != nil {
		return row{}, err
	}
	defer contest.Close(sides)
	allocs, err := allocsOf(sides, e.calls)
	if err != nil {
		return row{}, err
	}
	times, err := contest.Run(sides, e.rounds, e.calls)
	if err != nil {
		return row{}, err
	}
	return d.row(times, allocs), nil
}

// allocsOf returns the allocations that each side adds to the bare one's.
func allocsOf(sides []contest.Side, calls int) (a [rivals]float64, err error) {
	for r, s := range sides {
		if a[r], err = s.Allocs(calls); err != nil {
			return a, err
		}
		if r != bare {
			a[r] -= a[bare]
		}
	}
	return a, nil
}

func (d duel) row(times contest.Times, allocs [rivals]float64) row {
	r := row{what: d.what}
	var ns [rivals]float64
	for i := range ns {
		ns[i] = times.Added(i, bare)
		r.cells[i] = fmt.Sprintf("%+.0f ns", ns[i])
	}
	r.cells[bare] = fmt.Sprintf("%.0f ns", times.Median(bare))
	r.allocs = fmt.Sprintf("%d / %d / %d", round(allocs[guarded]), round(allocs[sqlmwAlone]), round(allocs[otel]))
	if d.maxNS > 0 {
		r.bar = fmt.Sprintf("+%.0f ns, %.0f allocs", d.maxNS, d.maxAllocs)
		few := allocs[guarded] <= d.maxAllocs+0.05 // the runtime itself allocates now and then
		r.verdict = judge(few && ns[guarded] <= d.maxNS, few && ns[control] > d.maxNS)
	}
	return r
}

func round(x float64) int { return int(math.Round(x)) }
