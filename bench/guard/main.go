// Command guard measures what the guarded driver costs, beside its rivals and in the same run, and prints one table.
//
//	go -C bench run ./guard        # some minutes
//	go -C bench run ./guard -short # a first look
//
// It ends with status 1 if the guard misses one of its bars.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/sqllock/sqllock/bench/contest"
)

func main() {
	short := flag.Bool("short", false, "fewer rounds: a first look")
	only := flag.String("only", "", "only the sections whose title contains this `text`")
	flag.Parse()
	e := thorough
	if *short {
		e = quick
	}
	t := &table{w: os.Stdout}
	if err := run(t, e, *only); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(2)
	}
	if t.failed > 0 {
		fmt.Printf("\n%d bars missed\n", t.failed)
		os.Exit(1)
	}
}

// run prints the sections that are wanted.
func run(t *table, e effort, only string) error {
	defer contest.Quiet()()
	sections := append(nullSections(), serverSections()...)
	for _, s := range sections {
		if !strings.Contains(s.title, only) {
			continue
		}
		t.head(s.title)
		if err := s.measure(t, e); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	return nil
}
