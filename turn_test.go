package sqllock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A turnLine is a locker whose pin only notes who holds a key: turns need no server.
type turnLine struct {
	*locker
	t *testing.T
	p *pin
}

func newTurnLine(t *testing.T) *turnLine {
	l := &locker{turns: map[serverKey]*turn{}}
	return &turnLine{l, t, &pin{owner: l, locks: map[*grant]struct{}{}}}
}

func (l *turnLine) grant(shared bool) *grant {
	return newGrant(context.Background(), ID(1), serverKey{id: 1}, shared)
}

// holds enters and is granted the key by the server.
func (l *turnLine) holds(shared bool) *grant {
	g := l.grant(shared)
	if held, err := l.enter(context.Background(), opTry, g); held || err != nil {
		l.t.Fatalf("enter: %v, %v", held, err)
	}
	l.p.adopt(g)
	l.granted(g)
	return g
}

// A comer waits for the turn in a goroutine.
type comer struct {
	*grant
	held bool
	err  error
	came chan struct{}
}

func (l *turnLine) waits(ctx context.Context, shared bool) *comer {
	c := &comer{grant: l.grant(shared), came: make(chan struct{})}
	go func() {
		c.held, c.err = l.enter(ctx, opWait, c.grant)
		close(c.came)
	}()
	synctest.Wait()
	return c
}

func (c *comer) here() bool {
	synctest.Wait()
	select {
	case <-c.came:
		return c.err == nil
	default:
		return false
	}
}

func TestTurnsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTurnLine(t)
		g := l.holds(false)
		var line []*comer
		for range 5 {
			line = append(line, l.waits(t.Context(), false))
		}
		for i, c := range line {
			if !l.passOn(g) || !c.here() || !c.held {
				t.Fatalf("waiter %d did not get the key", i)
			}
			if i+1 < len(line) && line[i+1].here() {
				t.Fatalf("waiters %d and %d have it", i, i+1)
			}
			g = c.grant
		}
		if l.passOn(g) {
			t.Error("the last one handed it to nobody")
		}
		l.leave(g)
		if len(l.turns) != 0 || len(l.p.locks) != 1 { // the release itself is the pin's
			t.Errorf("%d turns and %d grants are left", len(l.turns), len(l.p.locks))
		}
	})
}

// Others than this process must get a chance.
func TestHandOversAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTurnLine(t)
		g := l.holds(false)
		for range maxHandOvers {
			c := l.waits(t.Context(), false)
			if !l.passOn(g) || !c.here() {
				t.Fatal("not handed on")
			}
			g = c.grant
		}
		c := l.waits(t.Context(), false)
		if l.passOn(g) {
			t.Fatalf("handed on more than %d times", maxHandOvers)
		}
		l.leave(g)
		if !c.here() || c.held {
			t.Error("the next one should ask the server")
		}
		l.leave(c.grant)

		g = l.holds(false)
		c = l.waits(t.Context(), false)
		time.Sleep(maxHandingOver)
		if l.passOn(g) {
			t.Errorf("handed on after %v", maxHandingOver)
		}
		l.leave(g)
		c.here()
		l.leave(c.grant)
	})
}

func TestTurnsWithTokensAreTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTurnLine(t)
		l.cfg.token = true
		g := l.holds(false)
		c := l.waits(t.Context(), false)
		if l.passOn(g) {
			t.Error("a key was handed on with the old token")
		}
		l.leave(g)
		c.here()
		l.leave(c.grant)
	})
}

func TestSharedTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTurnLine(t)
		a := l.holds(true)
		b := l.grant(true)
		if held, err := l.enter(t.Context(), opTry, b); !held || err != nil {
			t.Fatalf("shared beside shared: %v, %v", held, err)
		}
		if _, err := l.enter(t.Context(), opTry, l.grant(false)); !errors.Is(err, ErrHeld) {
			t.Fatalf("exclusive beside shared: %v", err)
		}
		writer := l.waits(t.Context(), false)
		readers := []*comer{l.waits(t.Context(), true), l.waits(t.Context(), true)}
		if readers[0].here() {
			t.Fatal("a reader overtook a writer")
		}
		if !l.passOn(a) || writer.here() {
			t.Fatal("the writer came while a reader was there")
		}
		if l.passOn(b) {
			t.Fatal("a shared lock was handed to a writer")
		}
		l.p.drop(b)
		l.leave(b)
		if !writer.here() || writer.held {
			t.Fatal("the writer should ask the server")
		}
		l.p.adopt(writer.grant)
		l.granted(writer.grant)
		l.p.drop(writer.grant)
		l.leave(writer.grant)
		if !readers[0].here() || readers[0].held || readers[1].here() {
			t.Fatal("the first reader should ask the server")
		}
		l.p.adopt(readers[0].grant)
		l.granted(readers[0].grant)
		if !readers[1].here() || !readers[1].held {
			t.Fatal("the second reader should have come along")
		}
		for _, r := range readers {
			if !l.passOn(r.grant) {
				l.leave(r.grant)
			}
		}
	})
}

// Whoever gives up must not take the turn along.
func TestGivingUpATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTurnLine(t)
		g := l.holds(false)
		ctx, cancel := context.WithCancel(t.Context())
		gone, next := l.waits(ctx, false), l.waits(t.Context(), false)
		cancel()
		if gone.here() || !errors.Is(gone.err, context.Canceled) {
			t.Fatalf("a cancelled wait: %v", gone.err)
		}
		if !l.passOn(g) || !next.here() {
			t.Fatal("the next one did not get the key")
		}

		last := l.waits(t.Context(), false)
		w := &waiter{grant: l.grant(false), comes: make(chan bool, 1)} // the turn comes just when it gives up
		l.turns[w.grant.key].waiting = append([]*waiter{w}, l.turns[w.grant.key].waiting...)
		if !l.passOn(next.grant) {
			t.Fatal("not handed on")
		}
		l.giveUp(w.grant.turn, w)
		if !last.here() || !last.held {
			t.Fatal("what came too late was kept")
		}
	})
}

func TestLossEndsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTurnLine(t)
		l.p.over, l.p.cancel = make(chan struct{}), func() {}
		g := l.holds(false)
		next := l.waits(t.Context(), false)
		l.p.tell(errors.New("the server is gone"))
		if !next.here() || next.held {
			t.Error("the next one should ask the server at once")
		}
		if l.passOn(g) || !errors.Is(context.Cause(g.context()), ErrLost) {
			t.Error("the holder does not know")
		}
		l.leave(g) // does nothing
		if n := l.turns[g.key].n; n != 1 {
			t.Errorf("%d have the turn", n)
		}
	})
}

// Between the last sharer's release and the server's answer nobody may join it: the server may have released the key.
func TestNobodySharesAKeyThatIsBeingReleased(t *testing.T) {
	l := newTurnLine(t)
	last := l.holds(true)
	if l.passOn(last) {
		t.Fatal("passed on to nobody")
	}
	if held, err := l.enter(context.Background(), opTry, l.grant(true)); held || !errors.Is(err, ErrHeld) {
		t.Errorf("a try while the key is being released: held %v, %v", held, err)
	}
	l.leave(last)
	if held, err := l.enter(context.Background(), opTry, l.grant(true)); held || err != nil {
		t.Errorf("a try afterwards: held %v, %v", held, err)
	}
}
