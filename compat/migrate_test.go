package compat

import (
	"io/fs"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	migratemysql "github.com/golang-migrate/migrate/v4/database/mysql"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	migratepostgres "github.com/golang-migrate/migrate/v4/database/postgres"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

// migrateDriver gives golang-migrate a connection of the pool. Its driver for pgx takes the pool only, and closes it with itself.
//
// The table of migrations is the pool's own, and the lock's key is made of the table's name.
func (p *pool) migrateDriver() (drv database.Driver) {
	p.Helper()
	if p.bare == "pgx" {
		drv, err := migratepgx.WithInstance(p.db, &migratepgx.Config{MigrationsTable: p.name})
		p.must(err)
		return drv
	}
	conn, err := p.db.Conn(p.Context())
	p.must(err)
	if p.postgres {
		drv, err = migratepostgres.WithConnection(p.Context(), conn, &migratepostgres.Config{MigrationsTable: p.name})
	} else {
		drv, err = migratemysql.WithConnection(p.Context(), conn, &migratemysql.Config{MigrationsTable: p.name})
	}
	p.must(err)
	return drv
}

func (p *pool) migrate(files fs.FS) *migrate.Migrate {
	p.Helper()
	source, err := iofs.New(files, ".")
	p.must(err)
	m, err := migrate.NewWithInstance("files", source, "database", p.migrateDriver())
	p.must(err)
	return m
}

// closesPool: see migrateDriver.
func (p *pool) closesPool() bool { return p.bare == "pgx" }

var people = fstest.MapFS{
	"1_people.up.sql":   {Data: []byte("CREATE TABLE people (id int PRIMARY KEY); CREATE TABLE pets (id int PRIMARY KEY);")},
	"1_people.down.sql": {Data: []byte("DROP TABLE people; DROP TABLE pets;")},
	"2_ada.up.sql":      {Data: []byte("BEGIN; INSERT INTO people VALUES (1); COMMIT;")},
	"2_ada.down.sql":    {Data: []byte("DELETE FROM people;")},
}

func workMigrate(p *play) {
	p.ends = p.closesPool()
	m := p.migrate(people)
	p.saw("up", m.Up())
	p.versionMigrate(m)
	p.saw("again", m.Up())
	p.saw("a step down", m.Steps(-1))
	p.versionMigrate(m)
	p.saw("down", m.Down())
	p.saw("up", m.Migrate(1))
	p.saw("force", m.Force(2))
	p.versionMigrate(m)
	source, database := m.Close()
	p.saw("close", source, database)
}

func (p *play) versionMigrate(m *migrate.Migrate) {
	version, dirty, err := m.Version()
	p.saw("version", version, dirty, err)
}

var leaksMigrate = []leak{
	{"golang-migrate", "a migration fails within a BEGIN of its own, and the unlock with it; then `Close`", failMigrate, nil},
	{"golang-migrate", "`LockTimeout` passes, then the lock is granted, and nobody unlocks; then `Close`", lateMigrate, lateMigrate},
	{"golang-migrate", "`database.Driver`: `Lock`, then `Close`", closeMigrate, closeMigrate},
}

// closeMigrate closes what a program closes whose pool is to live on: for pgx nothing, as Close would end the pool.
func (p *pool) closeMigrate(m *migrate.Migrate) {
	if p.closesPool() {
		return
	}
	source, database := m.Close()
	p.must(source)
	p.must(database)
}

func failMigrate(p *pool) {
	m := p.migrate(fstest.MapFS{"1_fails.up.sql": {Data: []byte("BEGIN; SELECT no_such_function(); COMMIT;")}})
	p.fails(m.Up())
	p.closeMigrate(m)
}

// A second replica holds the lock for longer than the first one waits. What the first one began goes on.
func lateMigrate(p *pool) {
	other := p.beside().migrateDriver()
	m := p.migrate(people)
	p.must(other.Lock())
	m.LockTimeout = 50 * time.Millisecond
	if err := m.Up(); err != migrate.ErrLockTimeout {
		p.Fatalf("%s: %v", p.driver, err)
	}
	closed := make(chan struct{})
	go func() { defer close(closed); p.closeMigrate(m) }() // waits for the lock, too
	p.must(other.Unlock())
	<-closed
	p.must(other.Close())
}

func closeMigrate(p *pool) {
	p.ends = p.closesPool()
	drv := p.migrateDriver()
	p.must(drv.Lock())
	p.must(drv.Close())
}
