// Command jobs lets three processes run 1,000 jobs that are due at once, each of them once, and prints one table.
//
//	go -C bench run ./jobs        # seconds
//	go -C bench run ./jobs -n 100 # a first look
//
// The rival is the way of gocron-gorm-lock: INSERT a row with a unique key, run the job, UPDATE the row. It holds no lock and recovers
// from no crash. The program ends with status 1 if a job did not run exactly once.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs"
	_ "github.com/sqllock/sqllock/mysqllock" // the adapters, as in a user's program
	_ "github.com/sqllock/sqllock/pgxlock"
)

const partEnv = "SQLLOCK_BENCH_JOBS_PART"

// part is what one process does.
type part struct {
	Postgres bool
	DSN      string
	Way      string
	Jobs     int
	Due      time.Time
}

// score is what it says afterwards.
type score struct {
	Ran, Skipped int
	End          time.Time // when it had run or skipped its last job
}

func main() {
	if text := os.Getenv(partEnv); text != "" {
		if err := work(text, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "jobs: a process:", err)
			os.Exit(2)
		}
		return
	}
	n := flag.Int("n", 1000, "how many jobs")
	flag.Parse()
	_ = mysql.SetLogger(&mysql.NopLogger{})
	if err := run(os.Stdout, *n); err != nil {
		fmt.Fprintln(os.Stderr, "jobs:", err)
		os.Exit(1)
	}
}

const (
	atOnce = 8 // jobs in one process
	pool   = atOnce + 2
)

// work is one process: it is due for all jobs, in an order of its own.
func work(text string, out io.Writer) error {
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	db, err := p.open()
	if err != nil {
		return err
	}
	defer db.Close()
	once, end := p.way(db)
	defer end()
	if err := db.Ping(); err != nil {
		return err
	}
	var mu sync.Mutex
	var s score
	var failed error
	todo := make(chan int)
	var all sync.WaitGroup
	time.Sleep(time.Until(p.Due))
	for range atOnce {
		all.Go(func() {
			for i := range todo {
				ran, err := once(context.Background(), fmt.Sprint("job ", i), p.job(db, i))
				mu.Lock()
				failed = errors.Join(failed, err)
				if ran {
					s.Ran++
				} else {
					s.Skipped++
				}
				mu.Unlock()
			}
		})
	}
	for _, i := range rand.Perm(p.Jobs) {
		todo <- i
	}
	close(todo)
	all.Wait()
	s.End = time.Now()
	return errors.Join(failed, json.NewEncoder(out).Encode(s))
}

func (p part) open() (*sql.DB, error) {
	driver := "mysql-sqllock"
	if p.Postgres {
		driver = "pgx-sqllock"
	}
	db, err := sql.Open(driver, p.DSN)
	if err == nil {
		db.SetMaxOpenConns(pool)
		db.SetMaxIdleConns(pool)
	}
	return db, err
}

// job is a job's own work: one row.
func (p part) job(db *sql.DB, i int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO effects (job) VALUES (%d)", i))
		return err
	}
}

var slot = time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)

type once = func(ctx context.Context, name string, job func(ctx context.Context) error) (ran bool, err error)

// way returns how a job is run once.
func (p part) way(db *sql.DB) (o once, end func()) {
	if p.Way == rival {
		return p.insertUpdate(db), func() {}
	}
	var locker interface {
		sqllock.Locker
		Close() error
	} = sqllock.NewMySQL(db)
	if p.Postgres {
		locker = sqllock.NewPostgres(db)
	}
	ledger := jobs.NewLedger(db, locker)
	return func(ctx context.Context, name string, job func(context.Context) error) (bool, error) {
		return ledger.Once(ctx, name, slot, func(ctx context.Context, _ *jobs.Run) error { return job(ctx) })
	}, func() { locker.Close() }
}

// insertUpdate is the rival's way, in plain SQL.
func (p part) insertUpdate(db *sql.DB) once {
	insert, update := "INSERT INTO cron_job_locks (job_name, job_identifier, worker, status) VALUES (?, ?, ?, 'RUNNING')",
		"UPDATE cron_job_locks SET status = 'FINISHED' WHERE job_name = ? AND job_identifier = ?"
	if p.Postgres {
		insert, update = "INSERT INTO cron_job_locks (job_name, job_identifier, worker, status) VALUES ($1, $2, $3, 'RUNNING')",
			"UPDATE cron_job_locks SET status = 'FINISHED' WHERE job_name = $1 AND job_identifier = $2"
	}
	at := slot.Format(time.RFC3339)
	return func(ctx context.Context, name string, job func(context.Context) error) (bool, error) {
		if _, err := db.ExecContext(ctx, insert, name, at, fmt.Sprint(os.Getpid())); err != nil {
			return false, nil // like the rival: every error means that it is taken
		}
		if err := job(ctx); err != nil {
			return true, err
		}
		_, err := db.ExecContext(ctx, update, name, at)
		return true, err
	}
}
