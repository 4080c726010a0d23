package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sqllock/sqllock/bench/contest"
)

// lone measures what one more lock takes while 1,000 goroutines churn.
func (b *bench) lone(ctx context.Context) error {
	rivals := []rival{}
	for _, s := range b.sources() {
		rivals = append(rivals, s.lockers())
	}
	rivals = append(rivals, rueidisRival(b.Redis), redislockRival(b.Redis), redsyncRival(b.Redis))
	for _, r := range rivals {
		times, speed, err := b.among(ctx, r, 1000)
		if err != nil {
			fmt.Printf("  %-36s failed: %v\n", r.name, err)
			continue
		}
		fmt.Printf("  %-36s p50 %6.2f ms   p99 %6.2f ms   beside %.0f pairs/s\n", r.name, contest.Quantile(times, 0.5), contest.Quantile(times, 0.99), speed)
	}
	return nil
}

// among returns the milliseconds of single pairs.
func (b *bench) among(ctx context.Context, r rival, n int) (times []float64, speed float64, err error) {
	o, err := r.open(n + 1)
	if err != nil {
		return nil, 0, err
	}
	defer o.close()
	done := make(chan error, 1)
	turn := 4 * b.turn
	go func() {
		pairs, took, err := churn(ctx, o, n, turn)
		speed = float64(pairs) / took.Seconds()
		done <- err
	}()
	for i := 0; ; i++ {
		select {
		case err := <-done:
			return times, speed, err
		default:
		}
		start := time.Now()
		if err := o.pair(ctx, n, "lone/"+strconv.Itoa(i)); err != nil {
			return nil, 0, err
		}
		times = append(times, float64(time.Since(start).Microseconds())/1e3)
	}
}
