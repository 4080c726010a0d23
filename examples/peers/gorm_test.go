package peers

import (
	"database/sql"
	"encoding/json"
	"errors"
	"testing"
	"time"

	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type author struct {
	ID        uint
	CreatedAt time.Time
	DeletedAt gorm.DeletedAt
	Name      string `gorm:"size:50;uniqueIndex"`
	Age       *int
	Books     []book
}

type book struct {
	ID       uint
	AuthorID uint
	Title    string `gorm:"size:100;index"`
	Price    float64
}

// openGORM gives GORM a pool that is open already.
func openGORM(d *diary, p peer, db *sql.DB, prepare bool) *gorm.DB {
	dialector := gormmysql.New(gormmysql.Config{Conn: db})
	if p.bare == "pgx" {
		dialector = gormpostgres.New(gormpostgres.Config{Conn: db})
	}
	noon := func() time.Time { return time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC) }
	orm, err := gorm.Open(dialector, &gorm.Config{PrepareStmt: prepare, NowFunc: noon, Logger: logger.Discard})
	d.must(err)
	return orm
}

// sameGORM is same on all three servers, with and without GORM's prepared-statement mode.
func sameGORM(t *testing.T, run func(d *diary, orm *gorm.DB)) {
	t.Helper()
	for _, p := range []peer{onPostgres, onMySQL, onMariaDB} {
		params := "parseTime=true"
		if p.bare == "pgx" {
			params = ""
		}
		same(t, p, params, func(d *diary, db *sql.DB) { run(d, openGORM(d, p, db, false)) })
		p.name += ", prepared"
		same(t, p, params, func(d *diary, db *sql.DB) { run(d, openGORM(d, p, db, true)) })
	}
}

// did notes what a GORM call changed, and the values that it filled in.
func (d *diary) did(what string, tx *gorm.DB, values any) {
	d.t.Helper()
	text, err := json.Marshal(values)
	d.must(err)
	d.saw(what, tx.Error, tx.RowsAffected, string(text))
}

func migrate(d *diary, orm *gorm.DB) {
	d.saw("migrate", orm.AutoMigrate(&author{}, &book{}))
}

func TestGORMMigrate(t *testing.T) {
	sameGORM(t, func(d *diary, orm *gorm.DB) {
		migrate(d, orm)
		migrate(d, orm) // finds nothing to do
		m := orm.Migrator()
		d.saw("has", nil, m.HasTable(&author{}), m.HasTable("nothing"), m.HasColumn(&author{}, "Age"), m.HasIndex(&book{}, "Title"))
		d.saw("rename", m.RenameColumn(&author{}, "age", "years"))
		types, err := m.ColumnTypes(&author{})
		d.saw("types", err)
		for _, c := range types {
			length, _ := c.Length()
			nullable, _ := c.Nullable()
			d.saw("  "+c.Name(), nil, c.DatabaseTypeName(), length, nullable)
		}
		d.saw("drop", m.DropTable(&book{}))
	})
}

func TestGORMCreateReadUpdateDelete(t *testing.T) {
	sameGORM(t, func(d *diary, orm *gorm.DB) {
		migrate(d, orm)
		age := 36
		ada := author{Name: "Ada", Age: &age, Books: []book{{Title: "Notes", Price: 1.5}, {Title: "Letters"}}}
		d.did("create", orm.Create(&ada), ada)
		many := []author{{Name: "Grace"}, {Name: "Barbara"}, {Name: "Edsger"}}
		d.did("in batches", orm.CreateInBatches(&many, 2), many)
		d.did("duplicate", orm.Create(&author{Name: "Ada"}), nil)
		d.did("upsert", orm.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"age"})}).
			Create(&author{Name: "Grace", Age: &age}), nil)

		var found author
		d.did("first", orm.Preload("Books").First(&found, "name = ?", "Ada"), found)
		d.did("not found", orm.First(&author{}, "name = ?", "Nobody"), nil)
		d.did("update", orm.Model(&found).Updates(map[string]any{"age": gorm.Expr("age + ?", 1)}), found)
		d.did("for update", orm.Clauses(clause.Locking{Strength: "UPDATE"}).Find(&[]author{}, "age > ?", 30), nil)
		d.did("delete", orm.Delete(&author{}, "name = ?", "Edsger"), nil)
		var left []author
		d.did("left", orm.Order("id").Find(&left), left)
		d.did("raw", orm.Raw("select name from authors where id in ? order by id", []int{1, 2}).Scan(&left), left)
		d.did("exec", orm.Exec("update books set price = ? where title = @title", 2, sql.Named("title", "Notes")), nil)
		rows, err := orm.Model(&book{}).Order("id").Rows()
		d.rows("rows", rows, err)
	})
}

func TestGORMTransactions(t *testing.T) {
	failure := errors.New("the job failed")
	sameGORM(t, func(d *diary, orm *gorm.DB) {
		migrate(d, orm)
		d.saw("committed", orm.Transaction(func(tx *gorm.DB) error { return tx.Create(&author{Name: "Ada"}).Error }))
		d.saw("rolled back", orm.Transaction(func(tx *gorm.DB) error {
			tx.Create(&author{Name: "Grace"})
			return failure
		}))
		d.saw("nested", orm.Transaction(func(tx *gorm.DB) error {
			tx.Create(&author{Name: "Barbara"})
			d.saw("inner", tx.Transaction(func(inner *gorm.DB) error {
				inner.Create(&author{Name: "Edsger"})
				return failure
			}))
			return nil
		}))
		tx := orm.Begin(&sql.TxOptions{Isolation: sql.LevelSerializable})
		d.did("savepoint", tx.SavePoint("a"), nil)
		d.did("create", tx.Create(&author{Name: "Alan"}), nil)
		d.did("rollback to", tx.RollbackTo("a"), nil)
		d.did("create", tx.Create(&author{Name: "Alonzo"}), nil)
		d.did("commit", tx.Commit(), nil)
		var names []string
		d.did("names", orm.Model(&author{}).Order("id").Pluck("name", &names), names)
	})
}
