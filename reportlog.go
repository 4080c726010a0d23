package sqllock

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// logWindow is how long a mistake that was logged is not logged again.
	logWindow = 10 * time.Second
	// maxLogLines bounds what one window logs of a kind: many leaks must not hide the one session that died.
	maxLogLines = 20
)

// A reportLogger is where reports go by default. A mistake in a hot path is made thousands of times a minute: the log gets
// each place once a window, and how many were left out; [Stats] counts all.
type reportLogger struct {
	mu      sync.Mutex
	until   time.Time
	seen    map[string]struct{} // what the window has logged
	lines   map[Kind]int        // and how many of each kind
	leftOut int                 // since the last line
}

func (l *reportLogger) report(r Report) {
	leftOut, ok := l.admit(r)
	if !ok {
		return
	}
	attrs := []any{slog.String("kind", r.Kind.String()), slog.String("action", r.Action.String())}
	if len(r.Holds) > 0 {
		attrs = append(attrs, slog.String("lock", r.Holds[0].String()))
	}
	if leftOut > 0 {
		attrs = append(attrs, slog.Int("left_out", leftOut))
	}
	slog.Warn(r.String(), attrs...)
}

// admit says whether a report is logged, and how many were not since the last one that was.
func (l *reportLogger) admit(r Report) (leftOut int, ok bool) {
	mistake := r.mistake()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !r.Time.Before(l.until) {
		l.until, l.seen, l.lines = r.Time.Add(logWindow), map[string]struct{}{}, map[Kind]int{}
	}
	if _, again := l.seen[mistake]; again || l.lines[r.Kind] == maxLogLines {
		l.leftOut++
		return 0, false
	}
	l.seen[mistake] = struct{}{}
	l.lines[r.Kind]++
	leftOut, l.leftOut = l.leftOut, 0
	return leftOut, true
}

// mistake names what makes reports of one mistake alike: their place, or the statement where no stack is kept.
func (r Report) mistake() string {
	where, text := r.Place(), r.Statement
	if len(r.Holds) > 0 && r.Statement == "" { // SessionDied, HeldTooLong
		where, text = r.Holds[0].Place(), r.Holds[0].Statement
	}
	if where == "" {
		where = text
	}
	return r.Kind.String() + " " + where
}
