// Command load leaks session locks through a guarded pool under load, looks from outside for how long they stay, and prints
// what came of it for each server, as a table. docs/load.md has the numbers.
//
//	go -C bench run ./load                                    # ten minutes each, on all servers
//	go -C bench run ./load -server pgx -length 20s -seed 1    # a first look
//
// It ends with status 1 if a bar is missed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/bench/contest"
	"github.com/sqllock/sqllock/internal/load"
	"github.com/sqllock/sqllock/internal/testbed"
)

// sources are what -server names.
var sources = []struct {
	name, driver string
	server       func(testing.TB) *testbed.Server
}{
	{"pgx", "pgx", testbed.Postgres}, {"pq", "pq", testbed.Postgres}, {"mysql", "mysql", testbed.MySQL}, {"mariadb", "mysql", testbed.MariaDB},
}

func main() {
	length := flag.Duration("length", 10*time.Minute, "how long the load of each server lasts")
	only := flag.String("server", "all", "pgx or pq (on PostgreSQL), mysql, mariadb, or all")
	seed := flag.Uint64("seed", 0, "decides who leaks when in which way; 0: a new one")
	reset := flag.Bool("reset", false, "with sqllock.Reset as policy, which keeps a connection that it has cleaned, instead of the default, Discard")
	pause := flag.Duration("pause", 0, "of a goroutine that leaks, after each leak")
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	missed, err := run(ctx, load.Config{Length: *length, Seed: *seed, Policy: policy(*reset), Pause: *pause}, *only)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(2)
	case missed > 0:
		fmt.Printf("\n%d bars missed\n", missed)
		os.Exit(1)
	}
}

func policy(reset bool) sqllock.Policy {
	if reset {
		return sqllock.Reset
	}
	return sqllock.Discard
}

func run(ctx context.Context, cfg load.Config, only string) (missed int, err error) {
	ran := 0
	for _, s := range sources {
		if only != "all" && only != s.name {
			continue
		}
		ran++
		server, err := contest.Start(s.server)
		if err != nil {
			fmt.Printf("\n%s: left out: %v\n", s.name, err)
			continue
		}
		cfg.Driver, cfg.DSN = s.driver, server.DSN()
		r, err := load.Run(ctx, cfg)
		if err != nil {
			return missed, fmt.Errorf("%s: %w", s.name, err)
		}
		show(os.Stdout, fmt.Sprintf("%s on %s %s, policy %v", s.name, server.Kind, server.Version, cfg.Policy), r)
		missed += len(r.Missed()) + len(r.Unexpected)
	}
	if ran == 0 {
		return 0, fmt.Errorf("-server %s is none of pgx, pq, mysql, mariadb and all", only)
	}
	return missed, nil
}
