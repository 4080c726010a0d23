package main

import (
	"bytes"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/sqllock/sqllock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

func TestEmbedded(t *testing.T) { check(t, "") }

func TestPostgres(t *testing.T) {
	s := testbed.Postgres(t).NewDatabase(t)
	check(t, s.DSN())
	s.AwaitFree(t, 5*time.Second)
}

// check: each leads once, and nobody before the last has resigned.
func check(t *testing.T, dsn string) {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), &out, dsn); err != nil {
		t.Fatalf("%v, after:\n%s", err, &out)
	}
	turns := regexp.MustCompile(`replica (\d) leads\nreplica (\d) resigns\n`).FindAllStringSubmatch(out.String(), -1)
	var who []string
	for _, turn := range turns {
		if turn[1] == turn[2] {
			who = append(who, turn[1])
		}
	}
	slices.Sort(who)
	if !slices.Equal(who, []string{"1", "2", "3"}) {
		t.Errorf("they led like this:\n%s", &out)
	}
}
