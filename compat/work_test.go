package compat

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/sqllock/sqllock"
)

// A work is what a library is for, in the manner of its own documentation.
type work struct {
	library string
	do      func(p *play)
	locks   func(s stage) bool // whether that includes session locks, which are released
}

func always(stage) bool       { return true }
func onPostgres(s stage) bool { return s.postgres }

var works = []work{
	{"GORM", workGORM, always},
	{"GORM, prepared", workGORMPrepared, always},
	{"sqlx", workSqlx, always},
	{"bun", workBun, always},
	{"ent", workEnt, always},
	{"Atlas", workAtlas, always},
	{"goose", workGoose, onPostgres},
	{"golang-migrate", workMigrate, always},
}

// A play is a work being done, and what it saw.
type play struct {
	*pool
	ctx  context.Context
	seen []string
}

func (p *play) saw(what string, values ...any) {
	p.seen = append(p.seen, fmt.Sprintf("%s: %+v", what, values))
}

// Bare and guarded the same is seen, and the guard does nothing that could be noticed.
func TestOrdinaryWork(t *testing.T) {
	for _, w := range works {
		for _, s := range stages {
			t.Run(w.library+" on "+s.name, func(t *testing.T) {
				t.Parallel()
				bare := w.play(t, s, s.bare)
				guarded := w.play(t, s, s.guarded)
				if len(bare.seen) == 0 || !slices.Equal(bare.seen, guarded.seen) {
					t.Errorf("bare:\n%q\nguarded:\n%q", bare.seen, guarded.seen)
				}
				quiet(t, guarded, w.locks(s))
			})
		}
	}
}

// play does the work. The session that it begins with has to be there at the end.
func (w work) play(t *testing.T, s stage, driver string) *play {
	t.Helper()
	p := &play{pool: s.open(t, s.database(t), driver), ctx: t.Context()}
	p.must(p.db.PingContext(p.ctx))
	before := p.sessions()
	w.do(p)
	if after := p.sessions(); len(before) != 1 || !p.ends && !slices.Contains(after, before[0]) {
		t.Errorf("%s: the pool began with session %d, and ended with %d", driver, before, after)
	}
	p.server.AwaitFree(t, awaited)
	return p
}

// sessions asks each idle connection which session it is.
func (p *play) sessions() (ids []int64) {
	p.Helper()
	for range p.db.Stats().Idle {
		conn, err := p.db.Conn(p.ctx)
		p.must(err)
		defer conn.Close() // after the last one is asked: each is asked once
		var id int64
		p.must(conn.QueryRowContext(p.ctx, p.either("SELECT pg_backend_pid()", "SELECT connection_id()")).Scan(&id))
		ids = append(ids, id)
	}
	return ids
}

// quiet: what is acquired is released, and nothing is reported, asked or discarded.
func quiet(t *testing.T, p *play, locks bool) {
	t.Helper()
	got, err := sqllock.ReadStats(p.db)
	p.must(err)
	want := sqllock.Stats{LocksAcquired: got.LocksAcquired, LocksReleased: got.LocksAcquired}
	if got != want || (got.LocksAcquired > 0) != locks {
		t.Errorf("the guard counts %+v; it locks: %v", got, locks)
	}
}
