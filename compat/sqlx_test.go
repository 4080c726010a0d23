package compat

import (
	"context"

	"github.com/jmoiron/sqlx"
)

type sqlxPerson struct {
	ID   int
	Name string
}

func (p *pool) sqlx() *sqlx.DB { return sqlx.NewDb(p.db, p.driver) }

func workSqlx(p *play) {
	db := p.sqlx()
	db.MustExec("CREATE TABLE people (id int PRIMARY KEY, name varchar(50) NOT NULL)")
	people := []sqlxPerson{{1, "Ada"}, {2, "Grace"}}
	_, err := db.NamedExec("INSERT INTO people (id, name) VALUES (:id, :name)", people)
	p.must(err)
	_, err = db.NamedExec("INSERT INTO people (id, name) VALUES (:id, :name)", people[0])
	p.saw("a duplicate is refused", err != nil)

	tx := db.MustBegin()
	tx.MustExec(tx.Rebind("UPDATE people SET name = ? WHERE id = ?"), "Ada L.", 1)
	p.saw("committed", tx.Commit())
	tx = db.MustBegin()
	tx.MustExec("DELETE FROM people")
	p.saw("rolled back", tx.Rollback())

	stmt, err := db.Preparex(db.Rebind("SELECT id, name FROM people WHERE id = ?"))
	p.must(err)
	var one sqlxPerson
	for id := range 3 {
		p.saw("prepared", stmt.Get(&one, id), one)
	}
	p.must(stmt.Close())
	query, args, err := sqlx.In("SELECT id, name FROM people WHERE id IN (?) ORDER BY id", []int{1, 2})
	p.must(err)
	p.must(db.Select(&people, db.Rebind(query), args...))
	p.saw("people", people)

	conn, err := db.Connx(p.ctx)
	p.must(err)
	p.askSqlx(conn, p.try())
	p.askSqlx(conn, p.unlock())
	p.must(conn.Close())
}

var leaksSqlx = []leak{
	{"sqlx", "`Get(&ok, try)` through the pool", lockSqlx, lockSqlx},
	{"sqlx", "`Preparex(try)`, and `Get` on it", lockSqlxPrepared, lockSqlxPrepared},
	{"sqlx", "an early return before the unlock, with `Connx` and `Close`", lockSqlxOnConn, lockSqlxOnConn},
}

type sqlxGetter interface {
	GetContext(ctx context.Context, dest any, query string, args ...any) error
}

func (p *pool) askSqlx(on sqlxGetter, query string) {
	p.Helper()
	var done bool
	p.must(on.GetContext(p.Context(), &done, p.native(query), p.key()))
	p.got(done)
}

func lockSqlx(p *pool) { p.askSqlx(p.sqlx(), p.try()) }

func lockSqlxPrepared(p *pool) {
	stmt, err := p.sqlx().Preparex(p.native(p.try()))
	p.must(err)
	defer stmt.Close()
	var locked bool
	p.must(stmt.Get(&locked, p.key()))
	p.got(locked)
}

func lockSqlxOnConn(p *pool) {
	conn, err := p.sqlx().Connx(p.Context())
	p.must(err)
	defer conn.Close() // gives the connection back, and keeps the lock
	p.askSqlx(conn, p.try())
}
