package sqllock

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A mistake in a hot path is a line in ten seconds, and hides no other one.
func TestLogIsLimited(t *testing.T) {
	var log reportLog
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(was)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := &reportLogger{}
	send := func(n int, text string) {
		for range n {
			l.report(Report{Kind: Leak, Statement: text, Time: now})
		}
	}
	want := func(lines int, last string) {
		t.Helper()
		if n := strings.Count(log.String(), "level=WARN"); n != lines || !strings.Contains(log.String(), last) {
			t.Errorf("%d lines, want %d and %q:\n%s", n, lines, last, log.String())
		}
		log.Reset()
	}
	send(1000, "SELECT a")
	l.report(Report{Kind: Unverified, Statement: "SELECT a", Time: now})
	send(1000, "SELECT b")
	want(3, "left_out=999")
	now = now.Add(logWindow)
	send(2, "SELECT a")
	want(1, "left_out=999") // of b
	now = now.Add(logWindow)
	for i := range 1000 {
		send(1, fmt.Sprint("SELECT ", i))
	}
	want(maxLogLines, "left_out=1")
	now = now.Add(logWindow)
	stack, _ := here()
	for i := range 5 { // one place, whatever its text
		l.report(Report{Kind: Leak, Statement: fmt.Sprint("SELECT ", i), Stack: stack, Time: now})
	}
	want(1, fmt.Sprint("left_out=", 1000-maxLogLines))
	l.report(Report{Kind: SessionDied, Holds: []Hold{{Stack: stack}}, Time: now})
	l.report(Report{Kind: SessionDied, Holds: []Hold{{Stack: stack}}, Time: now})
	want(1, "left_out=4")
	now = now.Add(logWindow)
	for i := range 2 * maxLogLines {
		send(1, fmt.Sprint("SELECT ", i))
	}
	l.report(Report{Kind: SessionDied, Statement: "SELECT a", Time: now}) // rarer, and graver
	want(maxLogLines+1, "kind=SessionDied")
}
