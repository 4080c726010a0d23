package main

import (
	"fmt"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/bench/contest"
)

// A section is a part of the table: what is measured over one source.
type section struct {
	title   string
	measure func(t *table, e effort) error
}

// nullSections are what the null driver answers: the rivals' own cost, to the nanosecond.
func nullSections() (all []section) {
	for _, d := range []sqllock.Dialect{sqllock.DialectPostgres, sqllock.DialectMySQL} {
		s := source{name: fmt.Sprintf("null driver, %s", d), driver: &nullDriver{}, dialect: d}
		all = append(all,
			section{s.name + ": ordinary statements", func(t *table, e effort) error {
				return fightAll(t, e, s, ordinaryDuels())
			}},
			section{s.name + ": lock statements", func(t *table, e effort) error {
				return fightAll(t, e, s, lockDuels(d))
			}},
			section{s.name + ": connections", func(t *table, e effort) error {
				return connections(t, e, s)
			}})
	}
	return all
}

func fightAll(t *table, e effort, s source, ds []duel) error {
	p, err := open(s)
	if err != nil {
		return err
	}
	defer p.close()
	for _, d := range ds {
		r, err := d.fight(p, e)
		if err != nil {
			return fmt.Errorf("%s: %w", d.what, err)
		}
		t.add(r)
	}
	return nil
}

func connections(t *table, e effort, s source) error {
	r, err := cleanReturn(s)
	if err != nil {
		return err
	}
	t.add(r)
	for _, m := range []memory{{"memory, after an ordinary statement", useOrdinary}, {"memory, after a lock and unlock", useLock}} {
		r, err := m.measure(s, e.conns)
		if err != nil {
			return err
		}
		t.add(r)
	}
	return nil
}

// serverSections are what a user sees on a real server, and how long a leak lasts there.
func serverSections() (all []section) {
	for _, s := range realSources() {
		all = append(all, section{s.name, func(t *table, e effort) error {
			return onServer(t, e, s)
		}})
	}
	return all
}

// onServer starts the server when its turn comes, so that it does not disturb the others.
func onServer(t *table, e effort, s serverSource) error {
	src, err := s.start()
	if err != nil {
		t.note("not measured: %v", err)
		return nil
	}
	if err := contest.OnOneCore(func() error { return races(t, e, src) }); err != nil {
		return err
	}
	rows, err := leakToFree(src, e.leaks)
	for _, r := range rows {
		t.add(r)
	}
	return err
}

func races(t *table, e effort, s source) error {
	for _, c := range racesOf(s.dialect) {
		r, err := c.run(s, e)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		t.add(r)
	}
	return nil
}
