package load

import (
	"runtime"
	"slices"
	"sync"
)

// A Trend says whether something stays what it was: the median of the second quarter of the run beside that of the last.
type Trend struct{ Second, Last, Most float64 }

// Flat says that the last quarter has at most a tenth more than the second, and the slack.
func (t Trend) Flat(slack float64) bool { return t.Last <= t.Second*1.1+slack }

// trends are what is sampled.
type trends struct {
	mu                         sync.Mutex
	heap, goroutines, sessions series
}

// live is sampled while the load goes on.
func (t *trends) live(sessions int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.goroutines.add(float64(runtime.NumGoroutine()))
	t.sessions.add(float64(sessions))
}

// collected is what the heap has after a collection.
func (t *trends) collected() {
	runtime.GC()
	runtime.GC() // what the first one has finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heap.add(float64(m.HeapAlloc))
}

func (t *trends) result() (heap, goroutines, sessions Trend) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heap.trend(), t.goroutines.trend(), t.sessions.trend()
}

// A series has at most maxSamples, the more thinly spread the longer it is: it must not grow with the run that it judges.
type series struct {
	samples  []float64
	every, n int
}

const maxSamples = 4096

func (s *series) add(v float64) {
	if s.samples == nil {
		s.samples, s.every = make([]float64, 0, maxSamples), 1
	}
	if s.n++; s.n%s.every != 0 {
		return
	}
	if len(s.samples) == maxSamples {
		for i := range maxSamples / 2 {
			s.samples[i] = s.samples[2*i+1]
		}
		s.samples, s.every = s.samples[:maxSamples/2], 2*s.every
	}
	s.samples = append(s.samples, v)
}

func (s *series) trend() Trend {
	n := len(s.samples)
	if n < 4 {
		return Trend{}
	}
	return Trend{median(s.samples[n/4 : n/2]), median(s.samples[n*3/4:]), slices.Max(s.samples)}
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
