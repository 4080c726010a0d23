package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	leastPhase = time.Second
	mostPhase  = 15 * time.Second
)

// phases runs leaky and clean phases in turn, so that what else the machine does is in both, after one of warming up.
func (r *run) phases(ctx context.Context) {
	long := min(max(r.cfg.Length/20, leastPhase), mostPhase)
	n := max(2, int(r.cfg.Length/long)/2*2)
	if r.cfg.Length < 2*leastPhase {
		long = r.cfg.Length / 2
	}
	r.phase(ctx, -1, long, true)
	var clean, leaky []Rates
	for i := range n {
		if ctx.Err() != nil {
			return
		}
		if rates := r.phase(ctx, i, long, i%2 == 0); i%2 == 0 {
			leaky = append(leaky, rates)
		} else {
			clean = append(clean, rates)
		}
	}
	r.result.Clean, r.result.Leaky, r.result.Phases = medians(clean), medians(leaky), n/2
}

func medians(list []Rates) Rates {
	var a, b, c []float64
	for _, r := range list {
		a, b, c = append(a, r.Ordinary), append(b, r.Leaks), append(c, r.Connects)
	}
	return Rates{median(a), median(b), median(c)}
}

// phase lets everybody work for a while. In a leaky one the last goroutines leak; in a clean one they do what the others do,
// which is not counted.
func (r *run) phase(ctx context.Context, number int, long time.Duration, leaky bool) Rates {
	var ordinary atomic.Int64
	var done atomic.Bool
	var running sync.WaitGroup
	leaks, connects := r.watch.madeSoFar(), r.meter.opened.Load()
	began := time.Now()
	for g := range goroutines {
		running.Go(func() {
			w := &worker{run: r, ctx: ctx, n: g, rand: rand.New(rand.NewPCG(r.cfg.Seed, uint64(1+number)<<16|uint64(g)))}
			switch {
			case leaky && g >= goroutines-leaking:
				w.leak(&done)
			case g >= goroutines-leaking:
				w.work(&done, new(atomic.Int64))
			default:
				w.work(&done, &ordinary)
			}
		})
	}
	select {
	case <-time.After(long / 2):
	case <-ctx.Done():
	}
	r.trend.collected()
	select {
	case <-time.After(long - time.Since(began)):
	case <-ctx.Done():
	}
	done.Store(true)
	took := time.Since(began).Seconds()
	rates := Rates{
		float64(ordinary.Load()) / took, float64(r.watch.madeSoFar()-leaks) / took, float64(r.meter.opened.Load()-connects) / took,
	}
	running.Wait()
	return rates
}

// A worker is one goroutine of a phase.
type worker struct {
	*run
	ctx  context.Context
	n    int
	rand *rand.Rand
}
