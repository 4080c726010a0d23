package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/sqllock/sqllock/bench/contest"
)

var crowds = []int{1, 16, 64, 256, 1024}

// speeds are pairs a second, by rival and crowd.
type speeds map[string]map[int]float64

// pairs is the first table, and the picture.
func (b *bench) pairs(ctx context.Context) error {
	rivals := b.all()
	got, err := b.compare(ctx, rivals, crowds)
	if err != nil {
		return err
	}
	got.print(rivals, crowds)
	b.judge(got)
	if b.picture != "" {
		return got.draw(b.picture)
	}
	return nil
}

func (b *bench) all() (rivals []rival) {
	sources := b.sources()
	for _, s := range sources {
		rivals = append(rivals, s.lockers())
	}
	rivals = append(rivals, rueidisRival(b.Redis), rueidislockRival(b.Redis), redislockRival(b.Redis), redsyncRival(b.Redis))
	for _, s := range sources {
		if s.driver != "postgres" {
			rivals = append(rivals, s.raw(), s.dedicated())
		}
	}
	return rivals
}

// judge is what sqllock promises.
func (b *bench) judge(got speeds) {
	ratio := func(a, b string, n int) float64 { return got[a][n] / got[b][n] }
	least := func(a, b2 string, n int, bar float64) {
		r := ratio(a, b2, n)
		b.bar(fmt.Sprintf("%s at %d: %.2fx %s (bar %.1fx)", a, n, r, b2, bar), r >= bar)
	}
	for _, n := range []int{256, 1024} {
		least("sqllock, PostgreSQL, pgx", "rueidis, auto-pipelined", n, 2.5)
		least("sqllock, PostgreSQL, pgx", "redsync", n, 10)
	}
	for _, s := range []string{"PostgreSQL, pgx", "MySQL", "MariaDB"} {
		least("sqllock, "+s, "raw statements, a connection each, "+s, 1, 0.9)
	}
	for _, s := range []string{"MySQL", "MariaDB"} {
		least("sqllock, "+s, "rueidis, auto-pipelined", 256, 1.2)
		least("sqllock, "+s, "redsync", 256, 6)
	}
}

// compare lets the rivals have short turns, one after the other, in several rounds, and returns the medians.
func (b *bench) compare(ctx context.Context, rivals []rival, crowds []int) (speeds, error) {
	got := speeds{}
	for _, n := range crowds {
		samples := make([][]float64, len(rivals))
		for range b.rounds {
			for i, r := range rivals {
				if r.most != 0 && n > r.most {
					continue
				}
				speed, err := b.churn(ctx, r, n)
				if err != nil {
					fmt.Printf("  (%s failed with %d goroutines: %.100v)\n", r.name, n, err)
					continue
				}
				samples[i] = append(samples[i], speed)
			}
		}
		for i, r := range rivals {
			if got[r.name] == nil {
				got[r.name] = map[int]float64{}
			}
			if len(samples[i]) > 0 {
				got[r.name][n] = contest.Quantile(samples[i], 0.5)
			}
		}
	}
	return got, nil
}

// churn has n goroutines acquire and release keys of their own for a turn.
func (b *bench) churn(ctx context.Context, r rival, n int) (perSecond float64, err error) {
	o, err := r.open(n)
	if err != nil {
		return 0, err
	}
	defer o.close()
	pairs, took, err := churn(ctx, o, n, b.turn)
	return float64(pairs) / took.Seconds(), err
}

func churn(ctx context.Context, o *opened, n int, turn time.Duration) (pairs int, took time.Duration, err error) {
	for i := range n { // warm
		if err := o.pair(ctx, i, "warm"+strconv.Itoa(i)); err != nil {
			return 0, 0, err
		}
	}
	counts, errs := make([]int, n), make([]error, n)
	start := time.Now()
	end := start.Add(turn)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for j := 0; time.Now().Before(end) && errs[i] == nil; j++ {
				errs[i] = o.pair(ctx, i, "thousands/"+strconv.Itoa(i)+"/"+strconv.Itoa(j%8))
				counts[i]++
			}
		})
	}
	wg.Wait()
	took = time.Since(start)
	for _, c := range counts {
		pairs += c
	}
	return pairs, took, first(errs)
}

func (s speeds) print(rivals []rival, crowds []int) {
	fmt.Printf("  %-48s", "goroutines")
	for _, n := range crowds {
		fmt.Printf(" %9d", n)
	}
	fmt.Println()
	for _, r := range rivals {
		fmt.Printf("  %-48s", r.name)
		for _, n := range crowds {
			if v := s[r.name][n]; v > 0 {
				fmt.Printf(" %9.0f", v)
			} else {
				fmt.Printf(" %9s", "-")
			}
		}
		fmt.Println()
	}
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
