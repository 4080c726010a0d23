package compat

import (
	"context"
	"testing/fstest"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/migrate"
)

type bunPerson struct {
	bun.BaseModel `bun:"table:people"`

	ID   int64  `bun:",pk,autoincrement"`
	Name string `bun:"type:varchar(50),notnull,unique"`
}

func (p *pool) bun() *bun.DB {
	if p.postgres {
		return bun.NewDB(p.db, pgdialect.New())
	}
	return bun.NewDB(p.db, mysqldialect.New())
}

func workBun(p *play) {
	db := p.bun()
	p.migrateBun()
	people := []bunPerson{{Name: "Ada"}, {Name: "Grace"}}
	_, err := db.NewInsert().Model(&people).Exec(p.ctx)
	p.must(err)
	_, err = db.NewInsert().Model(&bunPerson{Name: "Ada"}).Exec(p.ctx)
	p.saw("a duplicate is refused", err != nil)
	p.saw("committed", db.RunInTx(p.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewUpdate().Model((*bunPerson)(nil)).Set("name = ?", "Ada L.").Where("name = ?", "Ada").Exec(ctx)
		return err
	}))
	p.saw("rolled back", db.RunInTx(p.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewDelete().Model((*bunPerson)(nil)).Where("1 = 1").Exec(ctx)
		p.must(err)
		return errJob
	}))
	people = nil
	p.must(db.NewSelect().Model(&people).OrderExpr("id").Scan(p.ctx))
	p.saw("people", people)
	stmt, err := db.Prepare(p.plain())
	p.must(err)
	var one int
	p.must(stmt.QueryRow(1).Scan(&one))
	p.saw("prepared", one, stmt.Close())

	conn, err := db.Conn(p.ctx)
	p.must(err)
	p.askBun(conn, p.try())
	p.askBun(conn, p.unlock())
	p.must(conn.Close())
}

// plain is a statement with one parameter that concerns no lock.
func (p *pool) plain() string { return p.either("SELECT $1::int", "SELECT ?") }

// migrateBun goes up, down and up.
func (p *play) migrateBun() {
	m := p.bunMigrator()
	for _, step := range []func(context.Context, ...migrate.MigrationOption) (*migrate.MigrationGroup, error){m.Migrate, m.Rollback, m.Migrate} {
		p.must(m.Lock(p.ctx))
		group, err := step(p.ctx)
		p.must(err)
		p.must(m.Unlock(p.ctx))
		p.saw("migrated", group.String())
	}
}

var bunFiles = fstest.MapFS{
	"20260101000000_people.up.sql": {Data: []byte("CREATE TABLE people (id serial PRIMARY KEY, name varchar(50) NOT NULL UNIQUE)\n" +
		"--bun:split\nCREATE TABLE pets (id int)\n")},
	"20260101000000_people.down.sql":    {Data: []byte("DROP TABLE people\n--bun:split\nDROP TABLE pets\n")},
	"20260102000000_edsger.tx.up.sql":   {Data: []byte("INSERT INTO people (name) VALUES ('Edsger')")},
	"20260102000000_edsger.tx.down.sql": {Data: []byte("DELETE FROM people")},
}

func (p *pool) bunMigrator() *migrate.Migrator {
	p.Helper()
	all := migrate.NewMigrations()
	p.must(all.Discover(bunFiles))
	m := migrate.NewMigrator(p.bun(), all, migrate.WithLocksTableName(p.name))
	p.must(m.Init(p.Context()))
	return m
}

var leaksBun = []leak{
	{"bun", "`NewRaw(try).Scan` through the pool", lockBun, lockBun},
	{"bun", "the lock taken in `RunInTx` that is rolled back", lockBunInTx, lockBunInTx},
	{"bun", "`migrate.Migrator.Lock` without `Unlock`: a row of a table, that stays", lockBunMigrator, lockBunMigrator},
}

func (p *pool) askBun(on bun.IDB, query string) {
	p.Helper()
	var done bool
	p.must(on.NewRaw(query, p.key()).Scan(p.Context(), &done))
	p.got(done)
}

func lockBun(p *pool) { p.askBun(p.bun(), p.try()) }

func lockBunInTx(p *pool) {
	p.bun().RunInTx(p.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		p.askBun(tx, p.try())
		return errJob
	})
}

func lockBunMigrator(p *pool) {
	p.must(p.bunMigrator().Lock(p.Context()))
}
