// Command migrate shows three replicas that start at once, and each migrate the database with goose before they serve:
// one applies the migrations, the others wait for it and find nothing left to do.
//
//	go -C examples run ./migrate                                     # an engine inside this process
//	go -C examples run ./migrate -dsn postgres://me@localhost/mydb   # PostgreSQL; MySQL and MariaDB likewise
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"io"
	"io/fs"
	"log"
	"os"
	"sync"

	"github.com/pressly/goose/v3"

	"github.com/sqllock/sqllock/examples/internal/engine"
	"github.com/sqllock/sqllock/jobs/schedulers/gooselock"
)

//go:embed migrations
var migrations embed.FS

func main() {
	dsn := flag.String("dsn", "", "a postgres:// URL or a MySQL data source name; without it, an engine inside this process")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *dsn); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, dsn string) error {
	dsn, stop, err := engine.Or(dsn)
	if err != nil {
		return err
	}
	defer stop()
	say := log.New(out, "", 0) // safe for concurrent use
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() { errs[i] = replica(ctx, say, dsn, i+1) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func replica(ctx context.Context, say *log.Logger, dsn string, number int) error {
	db, locker, err := engine.Open(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	dialect := goose.DialectMySQL
	if engine.IsPostgres(dsn) {
		dialect = goose.DialectPostgres
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(dialect, db, files, goose.WithSessionLocker(gooselock.New(locker.(gooselock.OnConn))))
	if err != nil {
		return err
	}
	applied, err := provider.Up(ctx)
	say.Printf("replica %d applied %d migrations", number, len(applied))
	return err
}
