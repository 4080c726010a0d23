package peers

import (
	"database/sql"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/sqllock/sqllock/mysqllock"
	"github.com/sqllock/sqllock/pgxlock"
)

// sqlx reads the kind of parameters off the driver's name, so it has to be told the guarded ones, once.
func init() {
	sqlx.BindDriver(pgxlock.DriverName, sqlx.DOLLAR)
	sqlx.BindDriver(mysqllock.DriverName, sqlx.QUESTION)
}

type person struct {
	ID    int            `db:"id"`
	First string         `db:"first_name"`
	Mail  sql.NullString `db:"mail"`
}

// sameSqlx is same on all three servers. sqlx opens the pools itself, by the driver's name.
func sameSqlx(t *testing.T, run func(d *diary, db *sqlx.DB)) {
	t.Helper()
	for _, p := range []peer{onPostgres, onMySQL, onMariaDB} {
		var db *sqlx.DB
		open := func(driver, dsn string) (_ *sql.DB, err error) {
			if db, err = sqlx.Open(driver, dsn); err != nil {
				return nil, err
			}
			return db.DB, nil
		}
		sameWith(t, p, "", open, nothing, func(d *diary, _ *sql.DB) {
			d.exec(db, "create table people (id int primary key, first_name varchar(50), mail varchar(50))")
			run(d, db)
		})
	}
}

func TestSqlxNamed(t *testing.T) {
	sameSqlx(t, func(d *diary, db *sqlx.DB) {
		insert := "insert into people (id, first_name, mail) values (:id, :first_name, :mail)"
		res, err := db.NamedExec(insert, person{ID: 1, First: "Ada", Mail: sql.NullString{String: "ada@example.org", Valid: true}})
		d.result("struct", res, err)
		res, err = db.NamedExec(insert, []person{{ID: 2, First: "Grace"}, {ID: 3, First: "Barbara"}})
		d.result("batch", res, err)
		rows, err := db.NamedQuery("select * from people where first_name = :name", map[string]any{"name": "Ada"})
		d.saw("map", err)
		for rows.Next() {
			var p person
			d.saw("  row", rows.StructScan(&p), p)
		}
		d.saw("  close", rows.Close())
		stmt, err := db.PrepareNamed("select count(*) from people where id > :id")
		d.must(err)
		var n int
		d.saw("prepared", stmt.Get(&n, map[string]any{"id": 1}), n)
		d.saw("close", stmt.Close())
	})
}

func TestSqlxScanning(t *testing.T) {
	sameSqlx(t, func(d *diary, db *sqlx.DB) {
		tx, err := db.Beginx()
		d.must(err)
		for id, name := range []string{"Ada", "Grace", "Barbara"} {
			tx.MustExec(db.Rebind("insert into people (id, first_name) values (?, ?)"), id, name)
		}
		d.saw("commit", tx.Commit())

		query, args, err := sqlx.In("select * from people where id in (?) order by id", []int{0, 2})
		d.must(err)
		var people []person
		d.saw("in", db.Select(&people, db.Rebind(query), args...), people)
		var one person
		d.saw("get", db.Get(&one, db.Rebind("select * from people where id = ?"), 1), one)
		d.saw("none", db.Get(&one, db.Rebind("select * from people where id = ?"), 9), one)
		rows, err := db.Queryx("select * from people order by id")
		d.must(err)
		for rows.Next() {
			row, err := rows.SliceScan()
			d.saw("slice", err, row)
		}
		d.saw("close", rows.Close())
		stmt, err := db.Preparex(db.Rebind("select first_name from people where id = ?"))
		d.must(err)
		var name string
		d.saw("preparex", stmt.Get(&name, 2), name)
		d.saw("close", stmt.Close())
		d.saw("unsafe", db.Unsafe().Get(&struct{ ID int }{}, "select * from people where id = 0"))
	})
}
