// Command thousands measures many locks at once beside the rivals on Redis, all in one run: it prints tables and writes
// the picture that the README shows.
//
//	go -C bench run ./thousands                    # some minutes
//	go -C bench run ./thousands -short             # a first look
//	go -C bench run ./thousands -picture FILE.svg  # and the picture
//
// It ends with status 1 if sqllock misses one of its bars.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sqllock/sqllock/bench/contest"
)

// effort is how long things are done.
type effort struct {
	rounds int
	turn   time.Duration // of one rival in one round
}

var (
	thorough = effort{rounds: 5, turn: 500 * time.Millisecond}
	quick    = effort{rounds: 1, turn: 300 * time.Millisecond}
)

// bench is one run.
type bench struct {
	effort
	servers
	picture string
	failed  int
}

func main() {
	if role := os.Getenv(roleEnv); role != "" {
		exit(child(role))
		return
	}
	short := flag.Bool("short", false, "a first look")
	only := flag.String("only", "", "only the sections whose title contains this `text`")
	picture := flag.String("picture", "", "write a picture of the first table to this `file`")
	flag.Parse()
	b := &bench{effort: thorough, picture: *picture}
	if *short {
		b.effort = quick
	}
	exit(b.run(*only))
	if b.failed > 0 {
		fmt.Printf("\n%d bars missed\n", b.failed)
		os.Exit(1)
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "thousands:", err)
		os.Exit(2)
	}
}

func (b *bench) run(only string) (err error) {
	_ = mysql.SetLogger(&mysql.NopLogger{})
	if b.servers, err = start(); err != nil {
		return err
	}
	defer contest.Quiet()()
	for _, section := range []struct {
		title   string
		measure func(context.Context) error
	}{
		{"pairs of acquire and release a second, distinct keys", b.pairs},
		{"the same while locks are held, and from 4 processes", b.grown},
		{"5,000 locks held", b.held},
		{"256 goroutines in 4 processes on 16 keys", b.contended},
		{"a lone acquire and release while 1,000 goroutines churn", b.lone},
	} {
		if !strings.Contains(section.title, only) {
			continue
		}
		fmt.Printf("\n%s\n", section.title)
		if err := section.measure(context.Background()); err != nil {
			return fmt.Errorf("%s: %w", section.title, err)
		}
	}
	return nil
}

// bar prints whether a bar was kept.
func (b *bench) bar(what string, kept bool) {
	verdict := "pass"
	if !kept {
		verdict = "FAIL"
		b.failed++
	}
	fmt.Printf("  %-92s %s\n", what, verdict)
}
