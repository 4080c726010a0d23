package compat

import (
	"errors"
	"strings"
	"testing"

	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

var errJob = errors.New("the job failed")

type gormAuthor struct {
	ID    uint
	Name  string `gorm:"size:50;uniqueIndex"`
	Age   *int
	Books []gormBook
}

type gormBook struct {
	ID           uint
	GormAuthorID uint
	Title        string
}

// gorm gives GORM the pool, as its documentation does with an existing connection.
func (p *pool) gorm(prepare bool) *gorm.DB {
	dialector := gormmysql.New(gormmysql.Config{Conn: p.db})
	if p.postgres {
		dialector = gormpostgres.New(gormpostgres.Config{Conn: p.db, DriverName: p.driverGORM()})
	}
	orm, err := gorm.Open(dialector, &gorm.Config{PrepareStmt: prepare, Logger: logger.Discard})
	p.must(err)
	return orm
}

// driverGORM: without a name GORM takes the driver for pgx, and gives it arguments that only pgx understands.
func (p *pool) driverGORM() string {
	if p.bare == "pgx" {
		return ""
	}
	return p.driver
}

func workGORM(p *play)         { p.authorsGORM(p.gorm(false)) }
func workGORMPrepared(p *play) { p.authorsGORM(p.gorm(true)) }

func (p *play) authorsGORM(orm *gorm.DB) {
	p.must(orm.AutoMigrate(&gormAuthor{}, &gormBook{}))
	p.must(orm.AutoMigrate(&gormAuthor{}, &gormBook{})) // finds nothing to do
	ada := gormAuthor{Name: "Ada", Books: []gormBook{{Title: "Notes"}, {Title: "Letters"}}}
	p.must(orm.Create(&ada).Error)
	p.saw("a duplicate is refused", orm.Create(&gormAuthor{Name: "Ada"}).Error != nil)
	p.saw("committed", orm.Transaction(func(tx *gorm.DB) error { return tx.Create(&gormAuthor{Name: "Grace"}).Error }))
	p.saw("rolled back", orm.Transaction(func(tx *gorm.DB) error {
		p.must(tx.Create(&gormAuthor{Name: "Edsger"}).Error)
		return errJob
	}))
	var found gormAuthor
	p.must(orm.Preload("Books").First(&found, "name = ?", "Ada").Error)
	p.saw("found", found)
	p.saw("updated", orm.Model(&found).Update("age", 36).RowsAffected)
	var names []string
	p.must(orm.Model(&gormAuthor{}).Order("id").Pluck("name", &names).Error)
	p.saw("names", names)
	p.saw("deleted", orm.Delete(&gormBook{}, "title = ?", "Notes").RowsAffected)
	p.must(orm.Migrator().DropTable(&gormBook{}, &gormAuthor{}))
	p.must(orm.Connection(func(tx *gorm.DB) error {
		p.askGORM(tx, p.try())
		p.askGORM(tx, p.unlock())
		return nil
	}))
}

// GORM's migrator needs pgx's simple protocol, which it asks for only if it is told no driver's name, or "pgx": it
// has to be given the pool, and no name. By name, its cached statements meet the table that it has just changed.
func TestGORMWantsThePool(t *testing.T) {
	p := stages[0].open(t, stages[0].database(t), stages[0].guarded)
	p.db.SetMaxOpenConns(1) // statements are cached by connection
	p.must(growGORM(p.gorm(false)))
	byName, err := gorm.Open(gormpostgres.New(gormpostgres.Config{DriverName: p.driver, Conn: p.db}), &gorm.Config{Logger: logger.Discard})
	p.must(err)
	p.must(byName.Migrator().DropTable(&gormThird{}))
	if err := growGORM(byName); err == nil || !strings.Contains(err.Error(), "0A000") {
		t.Errorf("by name: %v; the documents say that it cannot be done", err)
	}
}

type gormFirst struct{ ID uint }

type gormSecond struct {
	ID  uint
	Age int
}

type gormThird struct {
	ID     uint
	Age    int
	Height int
}

func (gormFirst) TableName() string  { return "growing" }
func (gormSecond) TableName() string { return "growing" }
func (gormThird) TableName() string  { return "growing" }

// growGORM adds a column to a table, and then another one.
func growGORM(orm *gorm.DB) error {
	return errors.Join(orm.AutoMigrate(&gormFirst{}), orm.AutoMigrate(&gormSecond{}), orm.AutoMigrate(&gormThird{}))
}

var leaksGORM = []leak{
	{"GORM", "`Raw(try).Scan` through the pool", lockGORM, lockGORM},
	{"GORM", "`Raw(try).Scan` with `PrepareStmt`", lockGORMPrepared, lockGORMPrepared},
	{"GORM", "the lock taken in a `Transaction` that is rolled back", lockGORMInTransaction, lockGORMInTransaction},
	{"GORM", "an early return from `Connection(func)`", lockGORMOnConnection, lockGORMOnConnection},
}

func (p *pool) askGORM(orm *gorm.DB, query string) {
	p.Helper()
	var done bool
	p.must(orm.Raw(query, p.key()).Scan(&done).Error)
	p.got(done)
}

func lockGORM(p *pool)         { p.askGORM(p.gorm(false), p.try()) }
func lockGORMPrepared(p *pool) { p.askGORM(p.gorm(true), p.try()) }

func lockGORMInTransaction(p *pool) {
	p.gorm(false).Transaction(func(tx *gorm.DB) error {
		p.askGORM(tx, p.try())
		return errJob
	})
}

func lockGORMOnConnection(p *pool) {
	p.gorm(false).Connection(func(tx *gorm.DB) error {
		p.askGORM(tx, p.try())
		return errJob // before the unlock
	})
}
