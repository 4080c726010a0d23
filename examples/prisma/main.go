// Command prisma shows a TypeScript worker, which uses Prisma, and a Go replica exclude each other by one key:
//
//	go -C examples run ./prisma -dsn postgres://me@localhost/mydb
//
// It needs node and, the first time, npm. It makes the table demo_settlements, and drops it. README.md has its output.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sqllock/sqllock"
	_ "github.com/sqllock/sqllock/pgxlock" // registers "pgx-sqllock"
)

func main() {
	dsn := flag.String("dsn", "", "a postgres:// URL")
	dir := flag.String("dir", "prisma", "where worker.ts is")
	flag.Parse()
	if *dsn == "" {
		log.Fatal("which PostgreSQL? -dsn postgres://...")
	}
	err := build(*dir)
	if err == nil {
		err = run(context.Background(), os.Stdout, *dsn, *dir)
	}
	if err != nil {
		log.Fatal(err)
	}
}

var settlement = sqllock.Name("daily-settlement") // TypeScript: lockKey("daily-settlement")

// settle is the Go replica's.
func settle(ctx context.Context, db *sql.DB, job func(tx *sql.Tx) error) (ran bool, err error) {
	return sqllock.RunExclusive(ctx, db, settlement, job)
}

// build compiles the worker, the first time.
func build(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "dist", "worker.js")); err == nil {
		return nil
	}
	for _, args := range [][]string{{"ci", "--ignore-scripts", "--no-audit", "--no-fund"}, {"run", "build"}} {
		cmd := exec.Command("npm", args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("npm %s: %w", args[0], err)
		}
	}
	return nil
}

// run tells the story.
func run(ctx context.Context, out io.Writer, dsn, dir string) (err error) {
	db, err := sql.Open("pgx-sqllock", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE demo_settlements (id SERIAL PRIMARY KEY, by TEXT NOT NULL)"); err != nil {
		return err
	}
	defer func() {
		_, e := db.ExecContext(ctx, "DROP TABLE demo_settlements")
		err = errors.Join(err, e)
	}()
	w, err := start(ctx, dsn, dir)
	if err != nil {
		return err
	}
	defer w.stop()

	fmt.Fprintf(out, "One key: %d\n\n1. The worker settles; the Go replica tries:\n", settlement.Int64())
	w.tell("hold 300 5000")
	fmt.Fprintf(out, "   worker: %s\n", w.line())
	ran, err := settle(ctx, db, func(*sql.Tx) error { return nil })
	fmt.Fprintf(out, "   Go: ran %v, error %v\n   worker: %s\n", ran, err, w.line())

	fmt.Fprintln(out, "\n2. The Go replica settles; the worker tries:")
	ran, err = settle(ctx, db, func(*sql.Tx) error {
		w.tell("hold 300 5000")
		fmt.Fprintf(out, "   worker: %s\n", w.line())
		return nil
	})
	fmt.Fprintf(out, "   Go: ran %v, error %v\n", ran, err)

	fmt.Fprintln(out, "\n3. The worker settles for 6.5 seconds, with Prisma's default time-out of 5 seconds:")
	if err := long(ctx, out, db, w, "hold 6500 0"); err != nil {
		return err
	}
	fmt.Fprintln(out, "\n4. The same with { timeout: 60_000 }:")
	return long(ctx, out, db, w, "hold 6500 60000")
}

// long lets the worker settle, and the Go replica try all the time.
func long(ctx context.Context, out io.Writer, db *sql.DB, w *worker, text string) error {
	w.tell(text)
	began := time.Now()
	fmt.Fprintf(out, "   worker: %s\n", w.line())
	for ran, err := false, error(nil); !ran; time.Sleep(20 * time.Millisecond) {
		if ran, err = settle(ctx, db, func(*sql.Tx) error { return nil }); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "   Go: got the lock after %.1f s\n", time.Since(began).Seconds())
	last := w.line()
	fmt.Fprintf(out, "   worker, after %.1f s: %s\n", time.Since(began).Seconds(), last)
	return nil
}

// worker is the TypeScript process.
type worker struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func start(ctx context.Context, dsn, dir string) (*worker, error) {
	cmd := exec.CommandContext(ctx, "node", "dist/worker.js")
	cmd.Dir, cmd.Stderr, cmd.Env = dir, os.Stderr, append(os.Environ(), "DATABASE_URL="+dsn)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &worker{cmd, in, bufio.NewScanner(out)}, cmd.Start()
}

func (w *worker) tell(text string) { fmt.Fprintln(w.in, text) }

func (w *worker) line() string {
	if !w.lines.Scan() {
		return "(its process is gone)"
	}
	return w.lines.Text()
}

func (w *worker) stop() {
	_ = w.in.Close()
	_ = w.cmd.Wait()
}
