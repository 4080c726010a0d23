package compat

import (
	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/schema"
	"entgo.io/ent/schema/field"
)

// ent gives ent the pool. A generated client sends everything through this driver, with the builders that are used here.
func (p *pool) ent() *entsql.Driver {
	return entsql.OpenDB(p.either(dialect.Postgres, dialect.MySQL), p.db)
}

// entPeople is a schema as ent's generated package migrate has it.
func entPeople() *schema.Table {
	id := &schema.Column{Name: "id", Type: field.TypeInt, Increment: true}
	name := &schema.Column{Name: "name", Type: field.TypeString, Size: 50, Unique: true}
	return &schema.Table{Name: "people", Columns: []*schema.Column{id, name}, PrimaryKey: []*schema.Column{id}}
}

func workEnt(p *play) {
	drv := p.ent()
	for range 2 { // the second finds nothing to do
		m, err := schema.NewMigrate(drv)
		p.must(err)
		p.must(m.Create(p.ctx, entPeople()))
	}
	p.must(p.insertEnt(drv, "Ada", "Grace"))
	p.saw("a duplicate is refused", p.insertEnt(drv, "Ada") != nil)

	tx, err := drv.BeginTx(p.ctx, nil)
	p.must(err)
	p.must(p.insertEnt(tx, "Barbara"))
	p.saw("committed", tx.Commit())
	tx, err = drv.Tx(p.ctx)
	p.must(err)
	p.must(p.insertEnt(tx, "Edsger"))
	p.saw("rolled back", tx.Rollback())

	query, args := entsql.Dialect(drv.Dialect()).Select("name").From(entsql.Table("people")).Where(entsql.GT("id", 0)).OrderBy("id").Query()
	var rows entsql.Rows
	p.must(drv.Query(p.ctx, query, args, &rows))
	var names []string
	p.must(entsql.ScanSlice(&rows, &names))
	p.saw("names", names, rows.Close())

	tx, err = drv.Tx(p.ctx)
	p.must(err)
	p.askEnt(tx, p.try())
	p.askEnt(tx, p.unlock())
	p.must(tx.Commit())
}

func (p *play) insertEnt(drv dialect.ExecQuerier, names ...string) error {
	insert := entsql.Dialect(p.either(dialect.Postgres, dialect.MySQL)).Insert("people").Columns("name")
	for _, name := range names {
		insert.Values(name)
	}
	query, args := insert.Query()
	return drv.Exec(p.ctx, query, args, nil)
}

var leaksEnt = []leak{
	{"ent", "`Query(try)` of the driver, through the pool", lockEnt, lockEnt},
	{"ent", "the lock taken in a `Tx` that is rolled back", lockEntInTx, lockEntInTx},
}

func (p *pool) askEnt(drv dialect.ExecQuerier, query string) {
	p.Helper()
	var rows entsql.Rows
	p.must(drv.Query(p.Context(), p.native(query), []any{p.key()}, &rows))
	done, err := entsql.ScanBool(&rows)
	p.must(err)
	p.must(rows.Close())
	p.got(done)
}

func lockEnt(p *pool) { p.askEnt(p.ent(), p.try()) }

func lockEntInTx(p *pool) {
	tx, err := p.ent().Tx(p.Context())
	p.must(err)
	p.askEnt(tx, p.try())
	p.must(tx.Rollback())
}
