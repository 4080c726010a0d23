package contest_test

import (
	"testing"
	"time"

	"github.com/sqllock/sqllock/bench/contest"
)

func TestRunMeasuresRunAlone(t *testing.T) {
	nothing := func(int) error { return nil }
	sleep := func(int) error { time.Sleep(10 * time.Millisecond); return nil }
	times, err := contest.Run([]contest.Side{{Run: sleep}, {Run: nothing, Before: sleep, After: sleep}}, 5, 2)
	if err != nil {
		t.Fatal(err)
	}
	if r := times.Ratio(1, 0); r > 0.5 {
		t.Errorf("ratio %v, not about 0", r)
	}
	if d := times.Added(0, 1); d < 5e6 {
		t.Errorf("added %v ns, not about 10 ms", d)
	}
}

func TestAllocs(t *testing.T) {
	var keep []byte
	s := contest.Side{Run: func(int) error { keep = make([]byte, 100); return nil }}
	n, err := s.Allocs(100)
	if err != nil || n < 1 || n > 1.5 {
		t.Errorf("%v allocations, %v; not 1", n, err)
	}
	_ = keep
}

func TestQuantile(t *testing.T) {
	values := []float64{3, 1, 2, 5, 4}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 1: 5} {
		if got := contest.Quantile(values, q); got != want {
			t.Errorf("quantile %v is %v instead of %v", q, got, want)
		}
	}
}

func TestOnOneCore(t *testing.T) {
	ran := false
	if err := contest.OnOneCore(func() error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("ran %v, %v", ran, err)
	}
}
