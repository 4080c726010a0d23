package main

import (
	"fmt"
	"io"
)

// table prints rows as they come: a full run takes minutes.
type table struct {
	w      io.Writer
	failed int
}

func (t *table) head(title string) { fmt.Fprintf(t.w, "\n%s\n", title) }

// row prints what was measured and, if there is a bar, whether it was kept. Noise excuses a miss: the control, which is
// the same as its rival, is over the bar, too.
func (t *table) row(what, value, bar string, kept, noise bool) {
	verdict := ""
	switch {
	case bar == "":
	case kept:
		verdict = "pass"
	case noise:
		verdict = "noise"
	default:
		verdict = "FAIL"
		t.failed++
	}
	fmt.Fprintf(t.w, "  %-44s %-34s %-22s %s\n", what, value, bar, verdict)
}
