// Command longjob shows a job of half an hour, in short: it holds a session lock and no transaction. In the middle its
// session ends. A second replica takes over, and the first, which does not notice, is refused when it writes.
//
//	go -C examples run ./longjob                                     # an engine inside this process
//	go -C examples run ./longjob -dsn postgres://me@localhost/mydb   # PostgreSQL; MySQL and MariaDB likewise
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
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

// A replica is a pool and a ledger of its own.
type replica struct {
	name   string
	out    io.Writer
	db     *sql.DB
	ledger *jobs.Ledger
	write  string // the fenced statement
}

func open(out io.Writer, dsn, name string) (*replica, error) {
	db, locker, err := engine.Open(dsn)
	r := &replica{name, out, db, jobs.NewLedger(db, locker), "UPDATE balance SET amount = ?, token = ? WHERE token <= ?"}
	if engine.IsPostgres(dsn) {
		r.write = "UPDATE balance SET amount = $1, token = $2 WHERE token <= $3"
	}
	return r, err
}

// save is what the protected resource checks: whoever has the greatest token so far may write.
func (r *replica) save(run *jobs.Run, amount int) error {
	result, err := r.db.ExecContext(context.Background(), r.write, amount, run.Token, run.Token)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = fmt.Errorf("token %d is superseded: %w", run.Token, sqllock.ErrLost)
	}
	fmt.Fprintf(r.out, "%s writes %d with token %d: %v\n", r.name, amount, run.Token, err)
	return err
}

// tell is the story. end ends the session of whoever holds the job's lock.
func tell(ctx context.Context, first, second *replica, end func() error) error {
	slot := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)
	_, err := first.ledger.Once(ctx, "balance", slot, func(ctx context.Context, run *jobs.Run) error {
		if err := errors.Join(first.save(run, 1), end()); err != nil {
			return err
		}
		<-ctx.Done()
		fmt.Fprintf(first.out, "%s is told: %v\n", first.name, errors.Is(context.Cause(ctx), sqllock.ErrLost))
		_, err := second.ledger.Once(context.WithoutCancel(ctx), "balance", slot, func(_ context.Context, run *jobs.Run) error {
			return second.save(run, 2)
		})
		return errors.Join(err, first.save(run, 3)) // it should have stopped
	})
	fmt.Fprintf(first.out, "%s ends, lost: %v\n", first.name, errors.Is(err, sqllock.ErrLost))
	if !errors.Is(err, sqllock.ErrLost) {
		return err
	}
	records, err := second.ledger.Runs(ctx, "balance", 1)
	for _, one := range records {
		fmt.Fprintf(second.out, "the ledger says: attempt %d, token %d, %s\n", one.Attempt, one.Token, one.Status)
	}
	return err
}
