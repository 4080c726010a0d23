package sqllocktest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/sqllocktest"

	_ "github.com/sqllock/sqllock/pgxlock"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// On a real server a leak fails the test, and the lock is free for the next one.
func TestLeakOnServers(t *testing.T) {
	for _, c := range []struct {
		server       func(testing.TB) *testbed.Server
		driver, lock string
	}{
		{testbed.Postgres, "pgx", "SELECT pg_try_advisory_lock(1)"},
		{testbed.MySQL, "mysql", "SELECT GET_LOCK('sqllocktest', 0)"},
		{testbed.MariaDB, "mysql", "SELECT GET_LOCK('sqllocktest', 0)"},
	} {
		t.Run("", func(t *testing.T) {
			s := c.server(t).NewDatabase(t)
			fake := &fakeT{}
			db := sqllocktest.Open(fake, c.driver, s.DSN())
			ask(t, db, c.lock)
			s.AwaitFree(t, 250*time.Millisecond)
			fake.end()
			if len(fake.failures) != 1 || !strings.Contains(fake.failures[0], "sqllocktest_test.go:") {
				t.Errorf("failures: %q", fake.failures)
			}
		})
	}
}
