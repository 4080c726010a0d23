package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sqllock/sqllock/internal/load"
)

// show prints a result as a table, and what was missed below it.
func show(w io.Writer, title string, r *load.Result) {
	fmt.Fprintf(w, "\n%s, %v, seed %d\n\n| what | value |\n|---|---|\n", title, r.Took.Round(time.Second), r.Seed)
	l := r.Leaks
	line := func(what, format string, args ...any) {
		fmt.Fprintf(w, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
	}
	line("locks leaked", "%d, in %d ways", l.Made, len(l.PerWay))
	line("seen from outside after the return, in "+fmt.Sprint(l.Looks)+" looks", "%d, the longest for %s (%s)", l.Seen, ms(l.Longest), l.LongestWay)
	line("gone at the latest after", "%s; the longest time between two looks was %s", ms(l.AtMost), ms(l.LongestLook))
	line("visible for more than "+load.MaxVisible.String(), "%d", len(l.Late))
	line("held in the end", "%d", len(r.LeftOver))
	line("operations/s of the other 180, without leaks", "%.0f (median of %d phases)", r.Clean.Ordinary, r.Phases)
	line("the same beside leaks", "%.0f, %.0f %%", r.Leaky.Ordinary, 100*r.Leaky.Ordinary/r.Clean.Ordinary)
	line("leaks/s, reconnects/s beside them", "%.0f, %.0f", r.Leaky.Leaks, r.Leaky.Connects)
	line("to open one connection, under the load", "median %s, p99 %s, of %d", ms(r.Connect.Median), ms(r.Connect.P99), r.Connect.N)
	line("operations that one reconnect costs the others", "%.1f", (r.Clean.Ordinary-r.Leaky.Ordinary)/r.Leaky.Connects)
	line("heap after a collection, second and last quarter, most", "%s", trend(r.Heap, 1<<20, " MiB"))
	line("goroutines", "%s", trend(r.Goroutines, 1, ""))
	line("sessions on the server", "%s", trend(r.Sessions, 1, ""))
	line("reports counted", "%d; between %d and %d were to come", r.Stats.Reports, l.LeastReports, l.MostReport)
	line("lines in the log", "%d", r.LogLines)
	line("connections that the guard discarded, probes", "%d, %d", r.Stats.ConnsDiscarded, r.Stats.Probes)
	for _, m := range append(r.Missed(), r.Unexpected...) {
		fmt.Fprintf(w, "\nMISSED: %s\n", m)
	}
	fmt.Fprintf(w, "\nways: %s\n", strings.Join(slices.Sorted(maps.Keys(l.PerWay)), "; "))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

func trend(t load.Trend, unit float64, name string) string {
	return fmt.Sprintf("%.1f, %.1f%s; %.1f", t.Second/unit, t.Last/unit, name, t.Most/unit)
}
