package sqllock

import (
	"context"
	"slices"
	"time"
)

// A turn is the right of a goroutine of the process to deal with a key, because a session is granted again what it
// holds already. It is given in the order of asking; shared locks have one together. Whoever has it without a pin
// asks the server. When it is passed on, the session may go on holding the key: then, the server is not asked.
//
// guarded by locker.mu
type turn struct {
	pin     *pin // whose session holds the key
	shared  bool
	n       int       // who has it
	handed  int       // how often it was handed on since the server granted the key
	since   time.Time // when the server did
	waiting []*waiter
}

type waiter struct {
	grant *grant
	comes chan bool // buffered: the turn comes, true: and the key is held
}

// Others must have a chance, too: a process hands a key on so often, and until it has had it for so long.
const (
	maxHandOvers   = 32
	maxHandingOver = 100 * time.Millisecond
)

// enter waits for the turn of a key, and says whether the key is held already.
func (l *locker) enter(ctx context.Context, op requestOp, g *grant) (held bool, err error) {
	t, w, held := l.join(g, op)
	switch {
	case t == nil:
		return held, nil
	case w == nil:
		return false, ErrHeld
	}
	select {
	case held = <-w.comes:
		return held, nil
	case <-ctx.Done():
		l.giveUp(t, w)
		return false, ctx.Err()
	}
}

// join gives a turn that is free. If another has it, it returns that and, unless op is a try, a place in the line.
func (l *locker) join(g *grant, op requestOp) (other *turn, w *waiter, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.turns[g.key]
	switch {
	case t == nil:
		t = &turn{shared: g.shared}
		l.turns[g.key] = t
		t.give(g)
		return nil, nil, false
	case t.shared && g.shared && t.pin != nil && len(t.waiting) == 0 && t.pin.adopt(g):
		t.give(g)
		return nil, nil, true
	case op == opTry:
		return t, nil, false
	}
	w = &waiter{grant: g, comes: make(chan bool, 1)}
	t.waiting = append(t.waiting, w)
	return t, w, false
}

// giveUp leaves the line, or passes on what came together with the end of the wait.
func (l *locker) giveUp(t *turn, w *waiter) {
	l.mu.Lock()
	i := slices.Index(t.waiting, w)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	l.mu.Unlock()
	switch {
	case i >= 0:
	case <-w.comes:
		go func() { _ = l.release(w.grant) }()
	default:
		l.leave(w.grant)
	}
}

// granted notes that the server granted the key: others who share it need not ask.
func (l *locker) granted(g *grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := g.turn
	if t == nil {
		return // lost since
	}
	t.pin, t.handed, t.since = g.pin, 0, time.Now()
	for t.shared && len(t.waiting) > 0 && t.waiting[0].grant.shared && t.pin.adopt(t.waiting[0].grant) {
		t.next(true)
	}
}

// release is what a grant's holder does: the last one of the process has the session release the key, unless another
// goroutine waits for it. It waits for as long as the session takes to answer, which is bounded.
func (l *locker) release(g *grant) error {
	if l.passOn(g) {
		return nil
	}
	err := g.pin.ask(context.Background(), opRelease, g)
	l.leave(g)
	if err == errPinEnded { //nolint:errorlint // never wrapped
		return g.pin.lossCause()
	}
	return err
}

// passOn leaves the key to the others who share it, or hands it to the first in the line, without the server. It does
// neither with a key that is lost.
func (l *locker) passOn(g *grant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := g.turn
	switch {
	case t == nil:
		return false
	case t.n > 1:
		if !g.pin.drop(g) {
			return false
		}
		t.n--
	case !l.handsOn(t) || !g.pin.swap(g, t.waiting[0].grant):
		t.pin = nil // nobody may come to share what is about to be released
		return false
	default:
		t.n--
		t.handed++
		t.next(true)
	}
	g.turn = nil
	return true
}

// handsOn: a fencing token has to come from the server.
func (l *locker) handsOn(t *turn) bool {
	return len(t.waiting) > 0 && t.waiting[0].grant.shared == t.shared && !l.cfg.token && !l.closed &&
		t.handed < maxHandOvers && time.Since(t.since) < maxHandingOver
}

// leave ends the turn of a grant that is not held, or not any more. It can be called again.
func (l *locker) leave(g *grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := g.turn
	if t == nil {
		return
	}
	g.turn = nil
	if t.n--; t.n > 0 {
		return
	}
	t.pin = nil
	if len(t.waiting) == 0 {
		delete(l.turns, g.key)
		return
	}
	t.shared = t.waiting[0].grant.shared
	t.next(false)
}

func (t *turn) give(g *grant) {
	g.turn = t
	t.n++
}

// next gives the turn to the first in the line.
func (t *turn) next(held bool) {
	w := t.waiting[0]
	t.waiting = slices.Delete(t.waiting, 0, 1)
	t.give(w.grant)
	w.comes <- held
}
