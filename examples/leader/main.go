// Command leader shows three replicas of which one leads: the first one resigns, and another one leads.
//
//	go -C examples run ./leader                                     # an engine inside this process
//	go -C examples run ./leader -dsn postgres://me@localhost/mydb   # PostgreSQL; MySQL and MariaDB likewise
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/examples/internal/engine"
	"github.com/sqllock/sqllock/jobs"
)

func main() {
	dsn := flag.String("dsn", "", "a postgres:// URL or a MySQL data source name; without it, an engine inside this process")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *dsn); err != nil {
		log.Fatal(err)
	}
}

// run lets three replicas lead one after the other.
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
	lead := func(ctx context.Context) error {
		say.Printf("replica %d leads", number)
		defer say.Printf("replica %d resigns", number)
		select { // a program works here until ctx is done
		case <-time.After(100 * time.Millisecond):
			return nil
		case <-ctx.Done(): // the lock is lost, or the program ends: stop at once
			return context.Cause(ctx)
		}
	}
	return jobs.Lead(ctx, locker, sqllock.Name("leader"), lead,
		jobs.WithCampaign(50*time.Millisecond), jobs.WithStepUpDelay(200*time.Millisecond)) // so that the story is short: keep the defaults
}
