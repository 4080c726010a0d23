// Command cron tells the story of a midnight job that fires three times because the service has three replicas, and how it
// fires once. The replicas are processes of their own.
//
//	go -C examples run ./cron                                     # an engine inside this process
//	go -C examples run ./cron -dsn postgres://me@localhost/mydb   # PostgreSQL: makes the table job_runs anew
//	go -C examples run ./cron -dsn 'me:pw@tcp(localhost)/mydb'    # MySQL or MariaDB
//
// What a service would have is in replica.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/sqllock/sqllock/examples/internal/engine"
)

func main() {
	dsn := flag.String("dsn", "", "a postgres:// URL or a MySQL data source name; without it, an engine inside this process")
	flag.Parse()
	ctx := context.Background()
	var err error
	if name := os.Getenv("REPLICA"); name != "" {
		err = runReplica(ctx, name, os.Getenv("DSN"))
	} else {
		err = tell(ctx, os.Stdout, *dsn)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// tell starts three replicas and fires midnights.
func tell(ctx context.Context, out io.Writer, dsn string) (err error) {
	if dsn == "" {
		var stop func() error
		if dsn, stop, err = engine.Start(); err != nil {
			return err
		}
		defer stop() // its error is about the sessions of killed replicas
	}
	folder, err := os.MkdirTemp("", "mail")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	o, end, err := newObserver(ctx, out, dsn, folder+"/sent")
	if err != nil {
		return err
	}
	defer end()
	f, err := newFleet(out, dsn, o.mail, "replica 1", "replica 2", "replica 3")
	if err != nil {
		return err
	}
	defer f.stop()
	return story(ctx, f, o)
}

func story(ctx context.Context, f *fleet, o *observer) error {
	day := func(d int) string { return time.Date(2026, 3, d, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) }

	fmt.Fprintf(o.out, "\nPART 1: no coordination, midnight of %s\n", day(28))
	f.tick("alone " + day(28))
	f.await(allDone)
	o.count(day(28))

	fmt.Fprintf(o.out, "\nPART 2: ledger.Once, midnight of %s\n", day(29))
	f.tick("once " + day(29))
	f.await(allDone)
	o.count(day(29))

	fmt.Fprintf(o.out, "\nPART 3: kill -9 in the middle of the run, midnight of %s\n", day(30))
	f.tick("once " + day(30))
	f.await(oneSettles)
	f.kill()
	f.await(allDone)
	o.count(day(30))
	if err := o.awaitDeath(ctx); err != nil {
		return err
	}
	fmt.Fprintf(o.out, "\nthe next tick, midnight of %s, first finishes what was left behind\n", day(31))
	f.tick("once " + day(31))
	f.await(allDone)
	o.count(day(30))
	o.count(day(31))
	return f.err()
}
