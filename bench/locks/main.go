// Command locks measures the lock helpers beside the raw statements and other helpers, in one run, and prints one table.
//
//	go -C bench run ./locks        # some minutes
//	go -C bench run ./locks -short # a first look
//
// It ends with status 1 if sqllock misses one of its bars.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/sqllock/sqllock/bench/contest"
)

// effort is how often each thing is done.
type effort struct{ rounds, handovers, losses, waitSeconds int }

var (
	thorough = effort{rounds: 1500, handovers: 200, losses: 200, waitSeconds: 10}
	quick    = effort{rounds: 150, handovers: 20, losses: 20, waitSeconds: 4}
)

func main() {
	if role := os.Getenv(roleEnv); role != "" {
		if err := waiter(role); err != nil {
			fmt.Fprintln(os.Stderr, "locks: the waiter:", err)
			os.Exit(2)
		}
		return
	}
	short := flag.Bool("short", false, "fewer rounds: a first look")
	only := flag.String("only", "", "only the sections whose title contains this `text`")
	flag.Parse()
	e := thorough
	if *short {
		e = quick
	}
	t := &table{w: os.Stdout}
	if err := run(t, e, *only); err != nil {
		fmt.Fprintln(os.Stderr, "locks:", err)
		os.Exit(2)
	}
	if t.failed > 0 {
		fmt.Printf("\n%d bars missed\n", t.failed)
		os.Exit(1)
	}
}

// run measures what is wanted on every server that there is.
func run(t *table, e effort, only string) error {
	mysql.SetLogger(&mysql.NopLogger{}) // sessions that are ended on purpose are no news
	defer contest.Quiet()()
	for _, s := range sources() {
		server, err := s.start()
		if err != nil {
			fmt.Fprintf(t.w, "\n%s: left out: %v\n", s.name, err)
			continue
		}
		for _, section := range []struct {
			title   string
			measure func(*table, source, string, effort) error
		}{
			{"uncontended", uncontended}, {"handed over to another process", handedOver}, {"session ended by the server", lost},
		} {
			title := s.name + ": " + section.title
			if !strings.Contains(title, only) {
				continue
			}
			t.head(title)
			if err := section.measure(t, s, server.DSN(), e); err != nil {
				return fmt.Errorf("%s: %w", title, err)
			}
		}
	}
	return nil
}
