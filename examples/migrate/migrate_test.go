package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

func TestEmbedded(t *testing.T) { check(t, "") }

func TestServers(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *testbed.Server{"PostgreSQL": testbed.Postgres, "MySQL": testbed.MySQL, "MariaDB": testbed.MariaDB} {
		t.Run(name, func(t *testing.T) {
			s := start(t).NewDatabase(t)
			check(t, s.DSN())
			s.AwaitFree(t, 5*time.Second)
		})
	}
}

// check: one replica applies both migrations.
func check(t *testing.T, dsn string) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), &out, dsn)
	if err != nil || strings.Count(out.String(), "applied 2 migrations") != 1 || strings.Count(out.String(), "applied 0 migrations") != 2 {
		t.Errorf("%v, after:\n%s", err, &out)
	}
}
