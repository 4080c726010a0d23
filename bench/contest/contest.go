// Package contest compares things that differ by less than the machine differs from itself.
//
// Two runs of one second are 70 ns apart with nothing changed between them. So all sides run in one process, in many
// short rounds in which each has its turn while the machine is in the same mood, and the answer is the median of what
// they differ by in a round. A second side that does the same as the first shows what is left of the noise.
package contest

import (
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// A Side is one side of a contest. i counts the calls.
type Side struct {
	Run           func(i int) error // what is measured
	Before, After func(i int) error // around each Run, not measured; may be nil
	Close         func() error      // when the contest is over; may be nil
}

// Close closes all sides.
func Close(sides []Side) {
	for _, s := range sides {
		if s.Close != nil {
			s.Close()
		}
	}
}

// Times are the ns per call: of each side, in each round.
type Times [][]float64

// Run lets the sides run against each other. Their order is drawn anew for every round: who runs first, or after
// whom, must favour nobody.
func Run(sides []Side, rounds, calls int) (Times, error) {
	times := make(Times, len(sides))
	for round := range rounds {
		if round%10 == 0 {
			runtime.GC() // here, because it is off while the clock runs: see Quiet
		}
		for _, s := range rand.Perm(len(sides)) {
			d, err := sides[s].turn(round*calls, calls)
			if err != nil {
				return nil, err
			}
			times[s] = append(times[s], float64(d)/float64(calls))
		}
	}
	return times, nil
}

// Append adds the rounds of another contest of the same sides.
func (t Times) Append(other Times) Times {
	if t == nil {
		return other
	}
	for s := range t {
		t[s] = append(t[s], other[s]...)
	}
	return t
}

// Median returns the median time of a side.
func (t Times) Median(side int) float64 { return Quantile(t[side], 0.5) }

// Added returns the ns that a side takes longer than another: the median over the rounds.
func (t Times) Added(side, than int) float64 {
	return t.paired(side, than, func(a, b float64) float64 { return a - b })
}

// Ratio returns how many times longer than another a side takes: the median over the rounds.
func (t Times) Ratio(side, than int) float64 {
	return t.paired(side, than, func(a, b float64) float64 { return a / b })
}

func (t Times) paired(side, than int, f func(a, b float64) float64) float64 {
	values := make([]float64, len(t[side]))
	for i := range values {
		values[i] = f(t[side][i], t[than][i])
	}
	return Quantile(values, 0.5)
}

// Quantile returns the q-th quantile, for q between 0 and 1.
func Quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

// turn measures calls calls: together, unless something has to be done in between.
func (s Side) turn(first, calls int) (total time.Duration, err error) {
	if s.Before != nil || s.After != nil {
		return s.turnWithBreaks(first, calls)
	}
	start := time.Now()
	for i := first; i < first+calls; i++ {
		if err := s.Run(i); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

func (s Side) turnWithBreaks(first, calls int) (total time.Duration, err error) {
	for i := first; i < first+calls; i++ {
		err := s.step(i, func() error {
			start := time.Now()
			err := s.Run(i)
			total += time.Since(start)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return total, nil
}

// step calls run between Before and After.
func (s Side) step(i int, run func() error) error {
	if s.Before != nil {
		if err := s.Before(i); err != nil {
			return err
		}
	}
	if err := run(); err != nil {
		return err
	}
	if s.After != nil {
		return s.After(i)
	}
	return nil
}

// Allocs returns the allocations per call: the least of a few turns, because others allocate meanwhile.
func (s Side) Allocs(calls int) (float64, error) {
	least := math.Inf(1)
	for range 3 {
		n, err := s.allocsOfTurn(calls)
		if err != nil {
			return 0, err
		}
		least = min(least, float64(n)/float64(calls))
	}
	return least, nil
}

func (s Side) allocsOfTurn(calls int) (uint64, error) {
	if s.Before != nil || s.After != nil {
		return s.allocsWithBreaks(calls)
	}
	return mallocs(func() error { _, err := s.turn(0, calls); return err })
}

func (s Side) allocsWithBreaks(calls int) (total uint64, err error) {
	for i := range calls {
		err := s.step(i, func() error {
			n, err := mallocs(func() error { return s.Run(i) })
			total += n
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return total, nil
}

// mallocs returns how often f allocates.
func mallocs(f func() error) (uint64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, err
}

// Quiet keeps the garbage collector out of the measurements. The limit is for what happens between them.
func Quiet() (restore func()) {
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(1 << 30)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}
