// Command leak shows what sqllock is for. Two replicas of a service want one of them to write the nightly report.
// Replica one takes a session lock and, on one way out of the job, forgets to release it.
//
//	go -C examples run ./leak                                     # an engine inside this process
//	go -C examples run ./leak -dsn postgres://me@localhost/mydb   # PostgreSQL
//	go -C examples run ./leak -dsn 'me:pw@tcp(localhost)/mydb'    # MySQL or MariaDB
//
// The story is told twice by the same code: only the driver's name differs.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	_ "github.com/sqllock/sqllock/mysqllock" // registers "mysql-sqllock"
	_ "github.com/sqllock/sqllock/pgxlock"   // registers "pgx-sqllock"
)

func main() {
	dsn := flag.String("dsn", "", "a postgres:// URL or a MySQL data source name; without it, an engine inside this process")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *dsn); err != nil {
		log.Fatal(err)
	}
}

// run tells the story: once without sqllock, once with it.
func run(ctx context.Context, out io.Writer, dsn string) error {
	log.SetFlags(0)
	log.SetOutput(out) // where log/slog writes, and so where sqllock's reports go
	db, err := open(dsn)
	if err != nil {
		return err
	}
	defer db.close()

	fmt.Fprintf(out, "PART 1: sql.Open(%q, dsn) on %s\n", db.driver, db.name)
	if err := twoReplicas(ctx, out, db, db.driver); err != nil {
		return err
	}
	guarded := db.driver + "-sqllock"
	fmt.Fprintf(out, "\nPART 2: sql.Open(%q, dsn), and nothing else is changed\n", guarded)
	return twoReplicas(ctx, out, db, guarded)
}

// twoReplicas gives each replica a pool of its own and lets one work after the other.
func twoReplicas(ctx context.Context, out io.Writer, db *database, driver string) error {
	one, err := sql.Open(driver, db.dsn)
	if err != nil {
		return err
	}
	defer one.Close()
	two, err := sql.Open(driver, db.dsn)
	if err != nil {
		return err
	}
	defer two.Close()

	fmt.Fprintln(out, "replica one: takes the lock, finds no orders to report, returns")
	if ran, err := tryForASecond(ctx, one, db, 0); err != nil || !ran {
		return fmt.Errorf("replica one did not get the lock (error: %v)", err)
	}
	done := time.Now()
	fmt.Fprintf(out, "replica one: done; idle connections in its pool: %d\n", one.Stats().Idle)

	ran, err := tryForASecond(ctx, two, db, 17)
	if err != nil {
		return fmt.Errorf("replica two: %w", err)
	}
	if ran {
		fmt.Fprintf(out, "replica two: got the lock and wrote the report %.1f ms later\n", time.Since(done).Seconds()*1000)
	} else {
		fmt.Fprintln(out, "replica two: busy, busy, busy for a whole second. Nobody works, and nobody else can")
	}
	return nil
}

// tryForASecond tries to do the job every few milliseconds until it ran.
func tryForASecond(ctx context.Context, pool *sql.DB, db *database, orders int) (ran bool, err error) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for start := time.Now(); time.Since(start) < time.Second; <-again.C {
		if ran, err := nightlyReport(ctx, pool, db, orders); ran || err != nil {
			return ran, err
		}
	}
	return false, nil
}

// nightlyReport does the job if nobody else is at it. It has a bug that no test with one replica finds.
func nightlyReport(ctx context.Context, pool *sql.DB, db *database, orders int) (ran bool, err error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close() // ends no session: the connection goes back to the pool

	var locked bool
	err = conn.QueryRowContext(ctx, db.lock, db.key).Scan(&locked)
	if err != nil || !locked {
		return false, err
	}
	if orders == 0 {
		return true, nil // the bug: this way out keeps the lock
	}
	_, err = conn.ExecContext(ctx, db.unlock, db.key)
	return true, err
}
