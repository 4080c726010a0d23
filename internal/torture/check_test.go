package torture

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// slack is how late a process may run on a busy machine.
const slack = 500 * time.Millisecond

// brief is for how long somebody may go on who is told at the same time: a leader whose successor has waited for that. It is for
// the eighth of the time-out that a process has which was stopped, 106 ms, and a busy machine.
const brief = 300 * time.Millisecond

// A section is what one holder did, as put together from its worker's journal.
type section struct {
	event              // its enter
	who      string    // the worker
	from, to time.Time // it thought to hold the key at least that long
	result   string    // kept or lost
	told     bool
	stops    []span // of its worker
	faults   []span // of the server and the network
}

// sections puts the events of one worker together, and counts its operations. A holder that was killed is judged until
// then, as one that was not told yet.
func (p *process) sections(events []event, faults []span) (all []*section, ops counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ops = counts{}
	open := map[int64]*section{}
	for _, e := range events {
		s := open[e.Section]
		switch {
		case e.Kind == "enter":
			s = &section{event: e, who: p.name, from: e.At, to: e.At, result: lost, stops: p.stops, faults: faults}
			if p.killed.After(e.At) {
				s.to = p.killed
			}
			open[e.Section], all = s, append(all, s)
		case e.Kind == "leave":
			s.to, s.told, s.Fenced = e.At, e.Told, e.Fenced
		default:
			ops[e.Op+": "+e.Result]++
			if s != nil {
				s.result, s.Error = e.Result, e.Error
			}
		}
	}
	return all, ops
}

func (s *section) String() string {
	name := s.Op
	if s.Shared {
		name += " (shared)"
	}
	return fmt.Sprintf("%s - %s  %-4s told %-5v %s %d: %s %s", s.from.Format("05.000000"), s.to.Format("05.000000"), s.result, s.told, s.who, s.Section, name, s.Error)
}

// An overlap is of two holders who exclude each other.
type overlap struct {
	a, b     *section
	from, to time.Time
}

// overlaps finds them all; sections is of one key and in order of entry.
func overlaps(sections []*section) (all []overlap) {
	for i, b := range sections {
		for _, a := range sections[:i] {
			if a.to.After(b.from) && !(a.Shared && b.Shared) {
				all = append(all, overlap{a, b, b.from, earlier(a.to, b.to)})
			}
		}
	}
	return all
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// allowed: one of the two had lost the lock, and was told, or would have been, within its bound.
func (o overlap) allowed() bool { return o.a.excused(o.from) || o.b.excused(o.from) }

// lateness is how long the holder that had lost the lock went on.
func (o overlap) lateness() time.Duration {
	switch {
	case !o.a.excused(o.from):
		return o.b.lateness(o.from)
	case !o.b.excused(o.from):
		return o.a.lateness(o.from)
	}
	return min(o.a.lateness(o.from), o.b.lateness(o.from))
}

// excused: a fault took the lock away, and s went on for no longer than promised: from the fault on if that takes the
// lock at once or not at all, else from when another had it.
func (s *section) excused(from time.Time) bool {
	if s.result == kept || s.Op == "lead" && s.lateness(from) > brief {
		return false
	}
	if s.inTx() && s.told && s.lateness(from) <= brief { // its caller gave up, which ends the transaction at the same time
		return true
	}
	return slices.ContainsFunc(slices.Concat(s.stops, s.faults), func(f span) bool {
		since := from
		if f.prompt {
			since = f.from
		}
		return s.hit(f, from) && s.lateness(since) <= s.Bound+slack
	})
}

func (s *section) inTx() bool { return s.Op == "lock tx" || s.Op == "run exclusive" }

// struck: only a fault takes a lock away, between the grant and the time when another has it.
func (s *section) struck(by time.Time) bool {
	return slices.ContainsFunc(slices.Concat(s.stops, s.faults), func(f span) bool { return s.hit(f, by) })
}

func (s *section) hit(f span, by time.Time) bool {
	const entering = 100 * time.Millisecond // may pass from the grant to the section
	return !f.from.After(by) && f.to.Add(entering).After(s.from)
}

// lateness is how long s went on after from. While its worker was stopped it did nothing.
func (s *section) lateness(from time.Time) time.Duration {
	late := s.to.Sub(from)
	for _, stop := range s.stops {
		late -= common(span{from: from, to: s.to}, stop)
	}
	return late
}

// handedOn: a key that a goroutine releases for another one of its process does not go to the server, so that Release
// says nil without having asked. Whoever of the process had the key next, or still, was told in time.
func (o overlap) handedOn(sections []*section) bool {
	return slices.ContainsFunc(sections, func(s *section) bool {
		for _, first := range []*section{o.a, o.b} {
			if s.who == first.who && !s.inTx() && !s.to.Before(first.to) && s.from.Sub(first.to) < slack && s.excused(o.from) {
				return true
			}
		}
		return false
	})
}

func common(a, b span) time.Duration {
	from := a.from
	if b.from.After(from) {
		from = b.from
	}
	return max(0, earlier(a.to, b.to).Sub(from))
}

// byKey sorts sections of all workers by key and entry.
func byKey(all []*section) map[string][]*section {
	keys := map[string][]*section{}
	for _, s := range all {
		keys[s.Key] = append(keys[s.Key], s)
	}
	for _, of := range keys {
		slices.SortFunc(of, func(a, b *section) int { return a.from.Compare(b.from) })
	}
	return keys
}

// timeline shows what happened to the key around an overlap, and the faults that struck its holders.
func timeline(sections []*section, o overlap) string {
	around := span{from: o.from.Add(-time.Second / 2), to: o.to.Add(time.Second / 2)}
	var lines strings.Builder
	for _, s := range sections {
		if common(span{from: s.from, to: s.to}, around) == 0 {
			continue
		}
		mark := "  "
		if s == o.a || s == o.b {
			mark = "> "
		}
		fmt.Fprintln(&lines, mark+s.String())
	}
	around.from = around.from.Add(-2 * time.Second)
	strikes := slices.Concat(o.a.faults, o.a.stops, o.b.faults, o.b.stops)
	slices.SortFunc(strikes, func(a, b span) int { return a.from.Compare(b.from) })
	for _, f := range slices.Compact(strikes) {
		if common(f, around) > 0 {
			fmt.Fprintf(&lines, "! %s - %s  %s\n", f.from.Format("05.000000"), f.to.Format("05.000000"), f.what)
		}
	}
	return lines.String()
}
