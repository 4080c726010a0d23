package sqllock_test

import (
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

// A primary that becomes read-only keeps its sessions, and so would keep its holders.
func TestServerBecomesReadOnly(t *testing.T) {
	for _, c := range []struct {
		stack  stack
		start  func(testing.TB, ...string) *testbed.Server
		demote []string
	}{
		{onPgx, testbed.StartPostgres, []string{"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"}},
		{onMySQL, testbed.StartMySQL, []string{"SET GLOBAL super_read_only = ON"}},
		{onMariaDB, testbed.StartMariaDB, []string{"SET GLOBAL read_only = ON"}},
	} {
		t.Run(c.stack.name, func(t *testing.T) {
			t.Parallel()
			s := c.start(t)
			p := newLockPool(t, c.stack, s, true, "")
			p.losing = true
			l := p.locker(t, sqllock.WithKeepalive(100*time.Millisecond), sqllock.WithSilenceBound(4*time.Second))
			lock := mustTry(t, l, testKey(t))
			time.Sleep(300 * time.Millisecond) // some keepalives
			if lock.Context().Err() != nil {
				t.Fatal("lost before anything has happened")
			}
			for _, q := range c.demote {
				if _, err := s.Outside(t).Exec(q); err != nil {
					t.Fatal(err)
				}
			}
			awaitLoss(t, lock, l.(interface{ LossBound() time.Duration }).LossBound()+time.Second)
		})
	}
}

// A role's own choice is no demotion.
func TestReadOnlyRoleKeepsItsLocks(t *testing.T) {
	p := newLockPool(t, onPgx, onPgx.server(t).NewDatabase(t), true, "default_transaction_read_only=on")
	lock := mustTry(t, p.locker(t, sqllock.WithKeepalive(50*time.Millisecond)), testKey(t))
	time.Sleep(300 * time.Millisecond) // some keepalives
	mustRelease(t, lock)
}
