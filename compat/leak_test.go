package compat

import (
	"slices"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

// A leak is a way in which a lock is left behind.
type leak struct {
	library, way    string
	postgres, mysql func(*pool) // nil: the library has no such way there
}

var leaks = slices.Concat(leaksGORM, leaksSqlx, leaksBun, leaksEnt, leaksAtlas, leaksGoose, leaksMigrate, leaksPglock)

// awaited is how long the guard may take, and how long a leak has to last to be one.
const awaited = time.Second

// Outcomes, as the table has them. It has nothing where there is no such way.
const (
	clean  = "no leak"     // bare, nothing was held a second after
	ended  = "held → free" // bare held; guarded free within a second
	beyond = "held → held" // the connection does not come back to the pool: the guard cannot end it
	worse  = "free → held" // never
)

// Every lock that a connection has when it comes back to the pool is free, if the driver is the guarded one.
func TestLeaks(t *testing.T) {
	found := make([][]string, len(stages)) // in the order of leaks; nil where there is no server
	t.Run("on", func(t *testing.T) {
		for i, s := range stages {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				found[i] = s.leak(t)
			})
		}
	})
	table := document(found)
	t.Log("\n" + table)
	compareDocument(t, table)
}

// leak makes each leak twice, and returns the outcomes.
func (s stage) leak(t *testing.T) []string {
	s.server(t) // skips here, if there is none
	made := make([]pair, len(leaks))
	for i, l := range leaks {
		if l.on(s) != nil {
			made[i] = l.leavePair(t, s)
		}
	}
	time.Sleep(awaited) // no condition to await: nothing may happen
	outcomes := make([]string, len(leaks))
	for i, l := range leaks {
		if l.on(s) != nil {
			outcomes[i] = l.judge(t, made[i])
		}
	}
	return outcomes
}

// pair is a leak in both pools.
type pair struct {
	guarded aftermath
	before  []string // what was held before the bare one
	bare    *pool
}

// leavePair makes the leak in a database that both pools share: to make one takes long.
func (l leak) leavePair(t *testing.T, s stage) pair {
	t.Helper()
	database := s.database(t)
	guarded := l.leaveGuarded(t, s, database)
	before := database.Held(t)
	return pair{guarded, before, l.leave(t, s, database, s.bare)}
}

func (l leak) on(s stage) func(*pool) {
	if s.postgres {
		return l.postgres
	}
	return l.mysql
}

func (l leak) leave(t *testing.T, s stage, database *testbed.Server, driver string) *pool {
	t.Helper()
	p := s.open(t, database, driver)
	l.on(s)(p)
	return p
}

// aftermath is what a second brings for a guarded pool.
type aftermath struct {
	held  bool
	ends  bool // the library has closed the pool
	stats sqllock.Stats
}

// leaveGuarded waits until the lock is free, or a second is over, and looks that the pool goes on.
func (l leak) leaveGuarded(t *testing.T, s stage, database *testbed.Server) (a aftermath) {
	t.Helper()
	p := l.leave(t, s, database, s.guarded)
	end := time.Now().Add(awaited)
	for a.held = true; a.held && time.Now().Before(end); time.Sleep(time.Millisecond) {
		a.held = len(database.Held(t)) > 0
	}
	if a.ends = p.ends; !a.ends {
		p.must(p.db.Ping())
	}
	stats, err := sqllock.ReadStats(p.db)
	p.must(err)
	a.stats = stats
	return a
}

// judge names the outcome. The guard ends a connection for a leak, and for nothing else.
func (l leak) judge(t *testing.T, p pair) string {
	t.Helper()
	found := outcome(slices.ContainsFunc(p.bare.server.Held(t), p.isNew), p.guarded.held)
	var discards int64
	if found == ended {
		discards = 1
	}
	s := p.guarded.stats
	if found == worse || !p.guarded.ends && (s.ConnsDiscarded != discards || s.Reports < discards) {
		t.Errorf("%s, %s: %s; the guard counts %+v", l.library, l.way, found, s)
	}
	return found
}

func (p pair) isNew(held string) bool { return !slices.Contains(p.before, held) }

func outcome(bare, guarded bool) string {
	switch {
	case bare && guarded:
		return beyond
	case bare:
		return ended
	case guarded:
		return worse
	}
	return clean
}
