package main

import (
	"bytes"
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

const want = `replica 1 writes 1 with token 1: <nil>
replica 1 is told: true
replica 2 writes 2 with token 2: <nil>
replica 1 writes 3 with token 1: token 1 is superseded: sqllock: the lock is lost: its session has ended
replica 1 ends, lost: true
the ledger says: attempt 2, token 2, succeeded
`

func check(t *testing.T, dsn string) {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), &out, dsn); err != nil || out.String() != want {
		t.Errorf("%v, after:\n%s", err, &out)
	}
}
