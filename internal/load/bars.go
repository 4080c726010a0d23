package load

import (
	"fmt"
	"time"
)

const (
	heapSlack      = 1 << 20 // bytes
	goroutineSlack = 20
	// atWork is how many goroutines the load itself explains: a driver has up to three for a connection.
	atWork       = goroutines + 3*connections + goroutineSlack
	sessionSlack = 5 // that are about to end
	// linesPerWindow is what the guard lets into the log in ten seconds.
	linesPerWindow = 20
)

// Missed says which bars were missed. That of the throughput is not here: it has none.
func (r *Result) Missed() (missed []string) {
	miss := func(ok bool, format string, args ...any) {
		if !ok {
			missed = append(missed, fmt.Sprintf(format, args...))
		}
	}
	for _, l := range r.Leaks.Late {
		miss(false, "visible for more than %v: %s", MaxVisible, l)
	}
	miss(len(r.LeftOver) == 0, "held when all had ended: %q", r.LeftOver)
	miss(r.Stats.Reports >= r.Leaks.LeastReports && r.Stats.Reports <= r.Leaks.MostReport,
		"%d reports were counted, and %d to %d leaks made", r.Stats.Reports, r.Leaks.LeastReports, r.Leaks.MostReport)
	miss(r.Heap.Flat(heapSlack), "the heap grows: %+v", r.Heap)
	miss(r.Goroutines.Flat(goroutineSlack) || r.Goroutines.Last <= atWork, "goroutines grow: %+v", r.Goroutines)
	// The fewer the more of them are being opened: what must not be is more than the pool has.
	miss(r.Sessions.Last <= connections+sessionSlack && r.Sessions.Most <= connections+4*sessionSlack, "sessions on the server grow: %+v", r.Sessions)
	most := linesPerWindow * (2 + int64(r.Took/(10*time.Second)))
	miss(r.LogLines > 0 && r.LogLines <= most, "the log has %d lines, want at most %d", r.LogLines, most)
	return missed
}
