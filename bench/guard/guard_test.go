package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/bench/contest"
)

// These are small versions of what the program does. They assert what no busy machine can upset: the times are for
// the program.

var tiny = effort{rounds: 2, calls: 20, reconnects: 1, serverRounds: 2, perTurn: 5, leaks: 5, conns: 200}

func TestOrdinaryStatementAddsNoAllocation(t *testing.T) {
	forEachDialect(t, func(t *testing.T, s source) {
		for _, d := range ordinaryDuels() {
			if n := allocsAdded(t, s, d); d.maxNS > 0 && n > 0.05 {
				t.Errorf("%s: %.2f allocations added", d.what, n)
			}
		}
	})
}

func TestLockStatementAddsFewAllocations(t *testing.T) {
	forEachDialect(t, func(t *testing.T, s source) {
		for _, d := range lockDuels(s.dialect) {
			if n := allocsAdded(t, s, d); n > d.maxAllocs {
				t.Errorf("%s: %.0f allocations added, more than %.0f", d.what, n, d.maxAllocs)
			}
		}
	})
}

func TestCleanReturnSendsNothing(t *testing.T) {
	forEachDialect(t, func(t *testing.T, s source) {
		if r, err := cleanReturn(s); err != nil || r.verdict != pass {
			t.Errorf("%v, %v", r, err)
		}
	})
}

func TestMemoryOfConnection(t *testing.T) {
	forEachDialect(t, func(t *testing.T, s source) {
		r, err := memory{"after a lock and unlock", useLock}.measure(s, 2000)
		if err != nil || r.verdict != pass {
			t.Errorf("%v, %v", r, err)
		}
	})
}

func TestLeakedLockIsFreed(t *testing.T) {
	for _, s := range realSources() {
		t.Run(s.name, func(t *testing.T) {
			src := source{driver: s.driver, dialect: s.dialect, dsn: s.server(t).DSN()}
			if _, err := leaksOf(src, guarded, tiny.leaks); err != nil {
				t.Errorf("guarded: %v", err)
			}
			if _, err := leaksOf(src, bare, 1); !errors.Is(err, errStillHeld) {
				t.Errorf("bare: %v instead of a lock that is still held", err)
			}
		})
	}
}

// The null driver's part of the table has a line and a verdict for everything that has a bar.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := run(&table{w: &out}, tiny, "null driver"); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(out.String()) {
		hasBar := strings.Contains(line, " allocs ") && !strings.Contains(line, rivalNames[control])
		if hasBar && !strings.Contains(line, string(pass)) && !strings.Contains(line, string(fail)) && !strings.Contains(line, string(noise)) {
			t.Errorf("no verdict: %s", line)
		}
		lines++
	}
	if lines < 60 {
		t.Errorf("only %d lines:\n%s", lines, out.String())
	}
}

func forEachDialect(t *testing.T, f func(*testing.T, source)) {
	for _, d := range []sqllock.Dialect{sqllock.DialectPostgres, sqllock.DialectMySQL} {
		t.Run(d.String(), func(t *testing.T) { f(t, source{driver: &nullDriver{}, dialect: d}) })
	}
}

// allocsAdded returns what the guard adds to a duel's call.
func allocsAdded(t *testing.T, s source, d duel) float64 {
	t.Helper()
	p, err := open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	sides, err := p.sides(d.prepare)
	if err != nil {
		t.Fatal(err)
	}
	defer contest.Close(sides)
	allocs, err := allocsOf(sides, 100)
	if err != nil {
		t.Fatal(err)
	}
	return allocs[guarded]
}
