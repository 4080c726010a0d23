package jobs_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs"
	"github.com/sqllock/sqllock/sqllocktest"
)

var (
	db     *sql.DB
	ctx    context.Context
	settle func(context.Context, time.Time) error
)

// Every replica calls this at midnight, one runs the settlement, and it is not run again.
func ExampleLedger_Once() {
	ledger := jobs.NewLedger(db, sqllock.NewPostgres(db)) // or sqllock.NewMySQL(db)
	if err := ledger.Create(ctx); err != nil {            // at the start: the table job_runs, if it is not there
		fmt.Println(err)
		return
	}
	slot := time.Now().UTC().Truncate(24 * time.Hour) // what the schedule says, not when this replica woke up

	ran, err := ledger.Once(ctx, "daily-settlement", slot, func(ctx context.Context, run *jobs.Run) error {
		return settle(ctx, run.Slot) // ctx ends when the lock is lost
	})
	fmt.Println(ran, err) // false and nil where another replica does it, or has done it
}

// What is written carries the run's token, so that a runner that has been superseded, and does not know it yet, writes nothing.
func ExampleRun() {
	ledger := jobs.NewLedger(db, sqllock.NewPostgres(db))
	_, err := ledger.Once(ctx, "balance", time.Now().Truncate(time.Hour), func(ctx context.Context, run *jobs.Run) error {
		result, err := db.ExecContext(ctx, "UPDATE balance SET amount = $1, token = $2 WHERE id = 7 AND token <= $2", 100, run.Token)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return fmt.Errorf("superseded: %w", sqllock.ErrLost)
		}
		return nil
	})
	fmt.Println(err)
}

// The claim and what the job writes are committed together, or not at all.
func ExampleLedger_ClaimTx() {
	ledger := jobs.NewLedger(db, sqllock.NewPostgres(db))
	err := func() error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		claimed, err := ledger.ClaimTx(ctx, tx, "hourly-total", time.Now().Truncate(time.Hour))
		if err != nil || !claimed {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO totals SELECT now(), sum(amount) FROM orders"); err != nil {
			return err
		}
		return tx.Commit()
	}()
	fmt.Println(err)
}

// One replica leads; when it ends, or loses the lock, another one does.
func ExampleLead() {
	locker := sqllocktest.NewMemory() // in a program: sqllock.NewPostgres(db) or sqllock.NewMySQL(db)

	err := jobs.Lead(context.Background(), locker, sqllock.Name("leader"), func(ctx context.Context) error {
		fmt.Println("leads")
		return nil // a program works here until ctx is done
	}, jobs.WithStepUpDelay(0))
	fmt.Println(err)
	// Output:
	// leads
	// <nil>
}
