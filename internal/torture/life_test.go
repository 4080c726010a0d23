package torture

import (
	"cmp"
	"testing"
	"time"
)

// tries is from how many on one at least must have worked.
const tries = 20

// judgeLife: whatever the faults did, everything has worked now and then; when no more of them strike, everything works
// again, and soon, in every worker. A library that refuses everything would be safe, too.
func judgeLife(t *testing.T, f *fleet, events map[string][]event) {
	all, calm := lives(events, time.Time{}), lives(events, f.calm)
	all.judge(t, "in the whole run")
	calm.judge(t, "since the faults ended")
	works := counts{}
	for op, l := range calm {
		works[op] = l.worked
	}
	report(t, "worked in the calm", works)
	for _, p := range f.alive {
		if lives(map[string][]event{"": events[p.name]}, f.calm).worked() == 0 {
			t.Errorf("%s has done nothing since the faults ended", p.name)
		}
	}
}

// A life is what became of one operation.
type life struct {
	tried, worked int
	err           string // the last one
}

type livesByOp map[string]life

func lives(events map[string][]event, from time.Time) livesByOp {
	ops := livesByOp{}
	for _, of := range events {
		for _, e := range of {
			if e.Result == "" || e.At.Before(from) {
				continue
			}
			l := ops[e.Op]
			l.tried++
			if e.Result == kept || e.Result == done {
				l.worked++
			}
			l.err = cmp.Or(e.Error, l.err)
			ops[e.Op] = l
		}
	}
	return ops
}

func (ops livesByOp) worked() (n int) {
	for _, l := range ops {
		n += l.worked
	}
	return n
}

func (ops livesByOp) judge(t *testing.T, when string) {
	for op, l := range ops {
		if l.worked == 0 && l.tried >= tries {
			t.Errorf("no %q has worked %s, in %d tries: %s", op, when, l.tried, l.err)
		}
	}
}
