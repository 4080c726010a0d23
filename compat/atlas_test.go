package compat

import (
	"context"
	"errors"
	"time"

	"ariga.io/atlas/sql/migrate"
	atlasmysql "ariga.io/atlas/sql/mysql"
	atlaspostgres "ariga.io/atlas/sql/postgres"
	atlasschema "ariga.io/atlas/sql/schema"
)

// workAtlas changes a schema under Atlas' own lock.
func workAtlas(p *play) {
	drv := p.atlas()
	unlock, err := drv.(atlasschema.Locker).Lock(p.ctx, p.name, time.Second)
	p.must(err)
	_, err = drv.(atlasschema.Locker).Lock(p.ctx, p.name, 0)
	p.saw("locked already", errors.Is(err, atlasschema.ErrLocked))
	before, err := drv.InspectSchema(p.ctx, "", nil)
	p.must(err)
	table := atlasschema.NewTable("people").SetSchema(before).AddColumns(atlasschema.NewIntColumn("id", "int"))
	p.saw("changed", drv.ApplyChanges(p.ctx, []atlasschema.Change{&atlasschema.AddTable{T: table}}))
	after, err := drv.InspectSchema(p.ctx, "", nil)
	p.must(err)
	p.saw("tables", len(before.Tables), len(after.Tables))
	p.must(unlock())
}

var leaksAtlas = []leak{
	{"Atlas", "the context of `Lock` is over when its unlock function is called", unlockAtlasLate, unlockAtlasLate},
}

func (p *pool) atlas() migrate.Driver {
	open := atlasmysql.Open
	if p.postgres {
		open = atlaspostgres.Open
	}
	drv, err := open(p.db)
	p.must(err)
	return drv
}

func unlockAtlasLate(p *pool) {
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	unlock, err := p.atlas().(atlasschema.Locker).Lock(ctx, p.name, 0)
	p.must(err)
	cancel()
	if err := unlock(); err == nil && !p.unlocksLate() {
		p.Fatalf("%s: unlocked with a context that is over", p.driver)
	}
}

// unlocksLate: lib/pq sends a statement whose context is over.
func (p *pool) unlocksLate() bool { return p.bare == "postgres" }
