package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
)

const (
	ours      = "sqllock's Ledger.Once"
	rival     = "insert, update"
	processes = 3
)

// run measures both ways on every server that there is.
func run(out io.Writer, n int) error {
	fmt.Fprintf(out, "%d jobs due at once in %d processes, %d at a time in each\n\n", n, processes, atOnce)
	fmt.Fprintf(out, "  %-12s%-24s%10s%12s%10s%10s\n", "server", "way", "ms", "jobs/s", "ran", "skipped")
	var failed error
	for _, start := range []func(testing.TB) *testbed.Server{testbed.Postgres, testbed.MySQL, testbed.MariaDB} {
		server, err := started(start)
		if err != nil {
			fmt.Fprintf(out, "  left out: %v\n", err)
			continue
		}
		for _, way := range []string{ours, rival} {
			failed = errors.Join(failed, measure(out, server, way, n))
		}
	}
	return failed
}

// measure runs one row of the table.
func measure(out io.Writer, server *testbed.Server, way string, n int) error {
	p := part{Postgres: server.Kind == testbed.KindPostgres, DSN: server.DSN(), Way: way, Jobs: n}
	db, err := p.open()
	if err != nil {
		return err
	}
	defer db.Close()
	if err := p.prepare(db); err != nil {
		return err
	}
	p.Due = time.Now().Add(2 * time.Second) // the processes have started by then
	total, err := p.race()
	if err != nil {
		return err
	}
	took := total.End.Sub(p.Due)
	fmt.Fprintf(out, "  %-12s%-24s%10d%12.0f%10d%10d\n", server.Kind, way, took.Milliseconds(), float64(n)/took.Seconds(), total.Ran, total.Skipped)
	var rows, distinct int
	if err := db.QueryRow("SELECT COUNT(*), COUNT(DISTINCT job) FROM effects").Scan(&rows, &distinct); err != nil {
		return err
	}
	if total.Ran != n || rows != n || distinct != n {
		return fmt.Errorf("%s on %s: %d runs, %d effects of %d jobs: want %d of each", way, server.Kind, total.Ran, rows, distinct, n)
	}
	return nil
}

// race lets the processes work.
func (p part) race() (total score, err error) {
	text, err := json.Marshal(p)
	if err != nil {
		return total, err
	}
	type result struct {
		score
		err error
	}
	results := make(chan result)
	for range processes {
		go func() {
			var r result
			cmd := exec.Command(os.Args[0])
			cmd.Env, cmd.Stderr = append(os.Environ(), partEnv+"="+string(text)), os.Stderr
			said, err := cmd.Output()
			if err == nil {
				err = json.Unmarshal(said, &r.score)
			}
			r.err = err
			results <- r
		}()
	}
	for range processes {
		r := <-results
		err = errors.Join(err, r.err)
		total.Ran, total.Skipped = total.Ran+r.Ran, total.Skipped+r.Skipped
		if r.End.After(total.End) {
			total.End = r.End
		}
	}
	return total, err
}

// prepare makes the tables anew.
func (p part) prepare(db *sql.DB) error {
	for _, q := range []string{
		"DROP TABLE IF EXISTS effects", "DROP TABLE IF EXISTS cron_job_locks", "DROP TABLE IF EXISTS job_runs",
		"CREATE TABLE effects (job INTEGER NOT NULL)",
		"CREATE TABLE cron_job_locks (job_name VARCHAR(100), job_identifier VARCHAR(100), worker VARCHAR(100), status VARCHAR(20), UNIQUE (job_name, job_identifier))",
	} {
		if _, err := db.Exec(q); err != nil {
			return err
		}
	}
	var locker sqllock.Locker = sqllock.NewMySQL(db)
	if p.Postgres {
		locker = sqllock.NewPostgres(db)
	}
	return jobs.NewLedger(db, locker).Create(context.Background())
}

// host is the test that testbed wants: it has only the methods that starting a shared server needs.
type host struct{ testing.TB }

type stopped struct{ error }

func (host) Helper()                   {}
func (host) Skipf(f string, a ...any)  { panic(stopped{fmt.Errorf(f, a...)}) }
func (host) Fatalf(f string, a ...any) { panic(stopped{fmt.Errorf(f, a...)}) }

// started starts a server, or says why there is none.
func started(start func(testing.TB) *testbed.Server) (server *testbed.Server, err error) {
	defer func() {
		if v := recover(); v != nil {
			s, ok := v.(stopped)
			if !ok {
				panic(v)
			}
			err = s
		}
	}()
	return start(host{}), nil
}
