package gooselock_test

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/sqllock/sqllock/internal/testbed"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs/schedulers/gooselock"
	_ "github.com/sqllock/sqllock/mysqllock"
	_ "github.com/sqllock/sqllock/pgxlock"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// Three replicas migrate at once: each migration is applied once, and all replicas return when all are.
func TestReplicasMigrate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start   func(testing.TB) *testbed.Server
		driver  string
		dialect goose.Dialect
		locker  func(*sql.DB) gooselock.OnConn
	}{
		"PostgreSQL": {testbed.Postgres, "pgx-sqllock", goose.DialectPostgres, func(db *sql.DB) gooselock.OnConn { return sqllock.NewPostgres(db) }},
		"MySQL":      {testbed.MySQL, "mysql-sqllock", goose.DialectMySQL, func(db *sql.DB) gooselock.OnConn { return sqllock.NewMySQL(db) }},
		"MariaDB":    {testbed.MariaDB, "mysql-sqllock", goose.DialectMySQL, func(db *sql.DB) gooselock.OnConn { return sqllock.NewMySQL(db) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.start(t).NewDatabase(t)
			var inside, applied atomic.Int64
			migrate := func(ctx context.Context, db *sql.DB) error {
				if inside.Add(1) != 1 {
					t.Error("two migrate at once")
				}
				defer inside.Add(-1)
				applied.Add(1)
				_, err := db.ExecContext(ctx, "CREATE TABLE migrated (a int)") // twice is an error
				return err
			}
			var wg sync.WaitGroup
			for range 3 {
				db, err := sql.Open(c.driver, s.DSN())
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				p, err := goose.NewProvider(c.dialect, db, nil, goose.WithSessionLocker(gooselock.New(c.locker(db))),
					goose.WithGoMigrations(goose.NewGoMigration(1, &goose.GoFunc{RunDB: migrate}, nil)))
				if err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					if _, err := p.Up(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if applied.Load() != 1 {
				t.Errorf("applied %d times", applied.Load())
			}
			s.AwaitFree(t, 5*time.Second)
		})
	}
}

func TestUnlockOfNothing(t *testing.T) {
	t.Parallel()
	if err := gooselock.New(sqllock.NewMySQL(nil)).SessionUnlock(t.Context(), nil); err == nil {
		t.Error("no error")
	}
}
