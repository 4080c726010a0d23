package testbed

import (
	"fmt"
	"sync"
	"testing"
)

// outcome is how a test function ended a test: by "skip", by "fatal", or not at all.
type outcome struct{ how, text string }

// watch runs f with a test that it may end without ending ours.
func watch(f func(t testing.TB)) outcome {
	w := &watched{}
	var done sync.WaitGroup
	done.Go(func() {
		defer func() { recover() }()
		f(w)
	})
	done.Wait()
	return w.outcome
}

// watched is a testing.TB of which only what the test bed calls works.
type watched struct {
	testing.TB
	outcome
}

func (w *watched) Helper() {}

func (w *watched) Skipf(format string, args ...any) { w.end("skip", format, args) }

func (w *watched) Fatalf(format string, args ...any) { w.end("fatal", format, args) }

func (w *watched) end(how, format string, args []any) {
	w.outcome = outcome{how, fmt.Sprintf(format, args...)}
	panic(how)
}
