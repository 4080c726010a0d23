package torture

import (
	"testing"
	"time"
)

// The judge itself: what it must let pass, and what it must not.
func TestOverlapAllowed(t *testing.T) {
	zero := time.Now()
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	holder := func(from, to int, result string, stops ...span) *section {
		return &section{event: event{Bound: time.Second}, from: at(from), to: at(to), result: result, stops: stops}
	}
	hit := span{from: at(50), to: at(60)}
	for _, c := range []struct {
		name    string
		a, b    *section
		network []span
		overlap bool
		allowed bool
	}{
		{"one after the other", holder(0, 100, kept), holder(100, 200, kept), nil, false, true},
		{"both kept", holder(0, 100, kept), holder(90, 200, kept), []span{hit}, true, false},
		{"the first lost it by a fault", holder(0, 100, lost), holder(90, 200, kept), []span{hit}, true, true},
		{"the first lost it by itself", holder(0, 100, lost), holder(90, 200, kept), nil, true, false},
		{"the first was told too late", holder(0, 2000, lost), holder(90, 3000, kept), []span{hit}, true, false},
		{"the first was stopped", holder(0, 2000, lost, span{from: at(50), to: at(1990)}), holder(1500, 3000, kept), nil, true, true},
		{"stopped on the way in", holder(0, 500, kept), holder(400, 410, lost, span{from: at(-1000), to: at(395)}), nil, true, true},
	} {
		c.a.faults, c.b.faults = c.network, c.network
		all := overlaps([]*section{c.a, c.b})
		if (len(all) == 1) != c.overlap {
			t.Errorf("%s: %d overlaps", c.name, len(all))
		}
		if c.overlap && all[0].allowed() != c.allowed {
			t.Errorf("%s: allowed: %v", c.name, !c.allowed)
		}
	}
}

func TestSharedHoldersMayOverlap(t *testing.T) {
	now := time.Now()
	readers := []*section{
		{event: event{Shared: true}, from: now, to: now.Add(time.Second), result: kept},
		{event: event{Shared: true}, from: now, to: now.Add(time.Second), result: kept},
	}
	if all := overlaps(readers); len(all) != 0 {
		t.Errorf("%d overlaps", len(all))
	}
}
