package load

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	lookEvery = 100 * time.Millisecond
	// remember is how long a lock that was returned is looked for: one that comes late is seen too.
	remember = 5 * time.Second
)

// A watch looks from outside which locks are held, and knows which of them should not be any more. What a lock is called
// is the server's name for it, as the dialect's query has it.
type watch struct {
	dialect *dialect
	db      *sql.DB

	mu    sync.Mutex
	locks map[string]*leaked
	leaks Leaks
	last  time.Time // the latest look's beginning
}

// leaked is a lock that is held on purpose until returned, and leaked from then on.
type leaked struct {
	way      string
	returned time.Time
	seen     time.Time // the beginning of the latest look that has seen it after that
	gone     bool      // a later look has not
}

func newWatch(d *dialect, db *sql.DB) *watch {
	return &watch{dialect: d, db: db, locks: map[string]*leaked{}, leaks: Leaks{PerWay: map[string]int64{}}}
}

// expect says that a lock may be held from now on.
func (w *watch) expect(lock, way string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.locks[lock] = &leaked{way: way}
}

// returned says that the connection that holds the lock goes back: the lock has to go. The first word counts.
func (w *watch) returned(lock string) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.locks[lock]; l != nil && l.returned.IsZero() {
		l.returned = now
	}
}

// made counts what was leaked, and what the guard must say of it.
func (w *watch) made(m *way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaks.Made++
	w.leaks.PerWay[m.name]++
	w.leaks.LeastReports += int64(m.least)
	w.leaks.MostReport += int64(m.most)
}

func (w *watch) madeSoFar() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leaks.Made
}

// run looks until ctx ends.
func (w *watch) run(ctx context.Context, t *trends) error {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		sessions, err := w.look(ctx, conn)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("load: look: %w", err)
		}
		t.live(sessions)
	}
}

// look asks once, and returns how many sessions the pool has on the server.
func (w *watch) look(ctx context.Context, conn *sql.Conn) (sessions int, err error) {
	began := time.Now()
	held, err := strs(ctx, conn, w.dialect.held)
	if err != nil {
		return 0, err
	}
	ended := time.Now()
	if err := conn.QueryRowContext(ctx, w.dialect.sessions).Scan(&sessions); err != nil {
		return 0, err
	}
	w.saw(held, began, ended)
	return sessions, nil
}

func (w *watch) saw(held []string, began, ended time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaks.Looks++
	if !w.last.IsZero() {
		w.leaks.LongestLook = max(w.leaks.LongestLook, ended.Sub(w.last))
	}
	w.last = began
	now := map[string]bool{}
	for _, lock := range held {
		now[lock] = true
		if l := w.locks[lock]; l == nil {
			w.late(fmt.Sprintf("%s: seen more than %v after its end, or never taken", lock, remember))
		} else if !l.returned.IsZero() {
			w.stillThere(lock, l, began)
		}
	}
	for lock, l := range w.locks {
		if l.returned.IsZero() || now[lock] || l.returned.After(began) {
			continue
		}
		if !l.gone {
			w.leaks.AtMost = max(w.leaks.AtMost, ended.Sub(l.returned))
		}
		l.gone = true
		if began.Sub(l.returned) > remember {
			delete(w.locks, lock)
		}
	}
}

// stillThere notes that a lock is seen although its connection has gone back.
func (w *watch) stillThere(lock string, l *leaked, at time.Time) {
	visible := at.Sub(l.returned)
	if visible <= 0 {
		return
	}
	if l.seen.IsZero() {
		w.leaks.Seen++
	}
	l.seen, l.gone = at, false
	if visible > w.leaks.Longest {
		w.leaks.Longest, w.leaks.LongestWay = visible, l.way
	}
	if visible > MaxVisible {
		w.late(fmt.Sprintf("%s, leaked by %q, is seen %v after its return", lock, l.way, visible.Round(time.Millisecond)))
	}
}

func (w *watch) late(text string) {
	if len(w.leaks.Late) < maxProblems {
		w.leaks.Late = append(w.leaks.Late, text)
	}
}

// leftOver returns what is held after the last leak had its second.
func (w *watch) leftOver(ctx context.Context) (held []string, err error) {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for end := time.Now().Add(MaxVisible); ; time.Sleep(lookEvery / 4) {
		held, err = strs(ctx, conn, w.dialect.held)
		if err != nil || len(held) == 0 || time.Now().After(end) {
			return held, err
		}
	}
}

func (w *watch) report(l *Leaks) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*l = w.leaks
}

// strs reads a query's one column of text.
func strs(ctx context.Context, c *sql.Conn, query string) (list []string, err error) {
	rows, err := c.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return nil, err
		}
		list = append(list, strings.TrimSpace(one))
	}
	return list, rows.Err()
}
