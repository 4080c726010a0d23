package main

import (
	"fmt"
	"io"
	"strings"
)

// A row is one line of the table: one question and every rival's answer.
type row struct {
	what   string
	cells  [rivals]string
	allocs string // added by the guard / sqlmw / otelsql
	bar    string // what the guard has to keep to
	verdict
}

// A verdict says whether the guard kept to its bar.
type verdict string

const (
	pass  verdict = "pass"
	fail  verdict = "FAIL"
	noise verdict = "noise" // the control does not keep to it either: the machine is too busy to tell
)

func judge(ok, controlOver bool) verdict {
	switch {
	case ok:
		return pass
	case controlOver:
		return noise
	default:
		return fail
	}
}

// table prints rows as they come: a full run takes minutes.
type table struct {
	w      io.Writer
	failed int
}

func (t *table) note(format string, args ...any) { fmt.Fprintf(t.w, format+"\n", args...) }

func (t *table) head(title string) {
	fmt.Fprintln(t.w)
	t.line(title, rivalNames, "allocs added", "bar", "")
}

func (t *table) add(r row) {
	if r.verdict == fail {
		t.failed++
	}
	t.line(r.what, r.cells, r.allocs, r.bar, r.verdict)
}

func (t *table) line(what string, c [rivals]string, allocs, bar string, v verdict) {
	line := fmt.Sprintf("%-50s %10s %9s %10s %9s %9s  %-13s %-17s %s",
		what, c[bare], c[control], c[guarded], c[sqlmwAlone], c[otel], allocs, bar, v)
	fmt.Fprintln(t.w, strings.TrimRight(line, " "))
}
