package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/lockertest"
	"github.com/sqllock/sqllock/internal/testbed"
)

func mustExec(t testing.TB, db *sql.DB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// The limits of a role end a wait's slices, not the wait, and leave nothing held twice.
func TestPostgresRoleTimeouts(t *testing.T) {
	for _, setting := range []string{"statement_timeout = '60ms'", "lock_timeout = '5ms'", "idle_session_timeout = '300ms'", "default_transaction_isolation = 'serializable'"} {
		for _, k := range []stack{onPgx, onPQ} {
			t.Run(k.name+"/"+setting, func(t *testing.T) {
				t.Parallel()
				s := k.server(t).NewDatabase(t)
				if strings.HasPrefix(setting, "idle_session_timeout") {
					skipWithoutIdleTimeout(t, s)
				}
				mustExec(t, s.Outside(t), "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || $s$ SET "+setting+"$s$; END $$")
				p := newLockPool(t, k, s, true, "")
				a, b := p.locker(t), p.locker(t)
				lock := mustTry(t, a, testKey(t))
				got := make(chan *sqllock.Lock, 1)
				go func() {
					lock, err := b.Acquire(context.Background(), testKey(t))
					if err != nil {
						t.Error(err)
					}
					got <- lock
				}()
				awaitWaiting(t, p, "1")
				time.Sleep(700 * time.Millisecond) // several slices, and longer than the idle time-out
				mustRelease(t, lock)
				if lock := <-got; lock != nil {
					mustRelease(t, lock)
				}
			})
		}
	}
}

// An administrator who cancels what waits ends a slice, not the wait.
func TestWaitSurvivesCancellation(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		lock := mustTry(t, p.locker(t), testKey(t))
		got := make(chan *sqllock.Lock, 1)
		l := p.locker(t)
		go func() {
			lock, err := l.Acquire(context.Background(), testKey(t))
			if err != nil {
				t.Error(err)
			}
			got <- lock
		}()
		out := p.server.Outside(t)
		for range 3 {
			awaitWaiting(t, p, "1")
			if p.stack.postgres() {
				mustExec(t, out, "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
				continue
			}
			var id int64
			if err := out.QueryRow("SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND STATE LIKE '%user%lock%' LIMIT 1").Scan(&id); err == nil {
				mustExec(t, out, fmt.Sprint("KILL QUERY ", id))
			}
		}
		mustRelease(t, lock)
		if lock := <-got; lock != nil {
			mustRelease(t, lock)
		}
	})
}

// A holder may build an index concurrently, which waits for every older snapshot, while others wait for its lock.
func TestConcurrentIndexWhileOthersWait(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		mustExec(t, p.DB, "CREATE TABLE big (n INT)", "INSERT INTO big SELECT generate_series(1, 1000)")
		lock := mustTry(t, p.locker(t), testKey(t))
		got := make(chan *sqllock.Lock, 3)
		for range 3 {
			l := p.locker(t)
			go func() {
				lock, err := l.Acquire(context.Background(), testKey(t))
				if err != nil {
					t.Error(err)
				}
				got <- lock
			}()
		}
		awaitWaiting(t, p, "3")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := p.ExecContext(ctx, "CREATE INDEX CONCURRENTLY big_n ON big (n)"); err != nil {
			t.Errorf("CREATE INDEX CONCURRENTLY: %v", err)
		}
		mustRelease(t, lock)
		for range 3 {
			if lock := <-got; lock != nil {
				mustRelease(t, lock)
			}
		}
	}, onPgx, onPQ)
}

// hostile is a schema in which everything that the library calls is a lie.
const hostile = `
CREATE SCHEMA evil;
CREATE VIEW evil.pg_locks AS SELECT locktype, pg_catalog.pg_backend_pid() AS pid, true AS granted, mode, classid, objid, objsubid, database FROM pg_catalog.pg_locks;
CREATE TABLE evil.pg_database (oid oid, datname name);
CREATE TABLE evil.pg_stat_activity (pid int, application_name text, usename name, client_addr inet);
CREATE FUNCTION evil.pg_try_advisory_lock(bigint) RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION evil.pg_try_advisory_lock_shared(bigint) RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION evil.pg_try_advisory_xact_lock(bigint) RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION evil.pg_advisory_lock(bigint) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION evil.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION evil.pg_advisory_unlock(bigint) RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION evil.pg_backend_pid() RETURNS int LANGUAGE sql AS 'SELECT 0';
CREATE FUNCTION evil.pg_is_in_recovery() RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION evil.version() RETURNS text LANGUAGE sql AS $$SELECT 'CockroachDB'::pg_catalog.text$$;
CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql AS $$SELECT '1'::pg_catalog.text$$;
CREATE FUNCTION evil.current_setting(text, bool) RETURNS text LANGUAGE sql AS $$SELECT '1'::pg_catalog.text$$;
CREATE FUNCTION evil.set_config(text, text, bool) RETURNS text LANGUAGE sql AS $$SELECT 'evil'::pg_catalog.text$$;
CREATE FUNCTION evil.transaction_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp()';
CREATE FUNCTION evil.concat(VARIADIC "any") RETURNS text LANGUAGE internal AS 'pg_event_trigger_dropped_objects';
CREATE DOMAIN evil.oid AS text; CREATE DOMAIN evil.int8 AS text; CREATE DOMAIN evil.int4 AS text; CREATE DOMAIN evil.text AS pg_catalog.bool;
CREATE FUNCTION evil.no(pg_catalog.text, pg_catalog.text) RETURNS bool LANGUAGE sql AS 'SELECT false';
CREATE FUNCTION evil.no(pg_catalog.int4, pg_catalog.int4) RETURNS bool LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR evil.= (LEFTARG = pg_catalog.text, RIGHTARG = pg_catalog.text, FUNCTION = evil.no);
CREATE OPERATOR evil.= (LEFTARG = pg_catalog.int4, RIGHTARG = pg_catalog.int4, FUNCTION = evil.no);
CREATE OPERATOR evil.>= (LEFTARG = pg_catalog.int4, RIGHTARG = pg_catalog.int4, FUNCTION = evil.no);
CREATE OPERATOR evil.~~ (LEFTARG = pg_catalog.text, RIGHTARG = pg_catalog.text, FUNCTION = evil.no);
`

// Whatever stands in front of pg_catalog in the search_path, the real functions answer.
func TestHostileSearchPath(t *testing.T) {
	for _, k := range []stack{onPgx, onPQ} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := k.server(t).NewDatabase(t)
			mustExec(t, s.Outside(t), strings.Split(strings.TrimSpace(strings.ReplaceAll(hostile, ";\n", ";\n--\n")), "--\n")...)
			p := newLockPool(t, k, s, true, "search_path=evil,pg_catalog")
			if v := value(t, p, "SELECT version()"); v != "CockroachDB" {
				t.Fatalf("the search_path is not hostile: %s", v)
			}
			site := p.site()
			lockertest.Run(t, site)
			held := &sqllock.HeldError{}
			lock := mustTry(t, p.locker(t), testKey(t))
			if _, err := p.locker(t).TryAcquire(t.Context(), testKey(t)); !errors.As(err, &held) {
				t.Fatal(err)
			}
			if who, err := held.Holder(t.Context()); err != nil || !strings.Contains(who, "pid ") {
				t.Errorf("Holder: %q, %v", who, err)
			}
			mustRelease(t, lock)
			ran, err := sqllock.RunExclusive(t.Context(), p.DB, testKey(t), func(tx *sql.Tx) error {
				if ran, err := sqllock.RunExclusive(t.Context(), p.DB, testKey(t), nil); ran || err != nil {
					t.Errorf("beside another: %v, %v", ran, err)
				}
				return nil
			})
			if !ran || err != nil {
				t.Errorf("RunExclusive: %v, %v", ran, err)
			}
		})
	}
}

// A full lock table is an error that says what to raise, and what is held stays as it is.
func TestLockTableFull(t *testing.T) {
	s := testbed.StartPostgres(t, "max_locks_per_transaction=10", "max_connections=10", "max_prepared_transactions=0", "superuser_reserved_connections=1")
	for _, k := range []stack{onPgx, onPQ} {
		t.Run(k.name, func(t *testing.T) {
			p := newLockPool(t, k, s, true, "")
			l := p.locker(t)
			var locks []*sqllock.Lock
			var err error
			for i := 0; err == nil && i < 100_000; i++ {
				var lock *sqllock.Lock
				if lock, err = l.TryAcquire(t.Context(), sqllock.ID(int64(i))); err == nil {
					locks = append(locks, lock)
				}
			}
			if err == nil || !strings.Contains(err.Error(), "max_locks_per_transaction") || errors.Is(err, sqllock.ErrHeld) || errors.Is(err, sqllock.ErrLost) {
				t.Errorf("%d locks: %v", len(locks), err)
			}
			t.Logf("%d locks", len(locks))
			mustRelease(t, locks...)
		})
	}
}

// standby restarts a private server as a standby of nobody.
func standby(t testing.TB) *testbed.Server {
	t.Helper()
	s := testbed.StartPostgres(t, "wal_level=replica", "hot_standby=on")
	dir := value(t, s.Outside(t), "SHOW data_directory")
	if err := os.WriteFile(filepath.Join(dir, "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	return s
}

// The advisory locks of a standby are its own: nothing that asks there for one gets it.
func TestStandbyIsRefused(t *testing.T) {
	s := standby(t)
	for _, k := range []stack{onPgx, onPQ} {
		t.Run(k.name, func(t *testing.T) {
			p := newLockPool(t, k, s, true, "")
			refused := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, sqllock.ErrUnsupported) || !strings.Contains(err.Error(), "standby") {
					t.Errorf("%s: %v", what, err)
				}
			}
			for _, opts := range [][]sqllock.LockerOption{nil, {sqllock.WithToken()}, {sqllock.WithDedicatedConn()}} {
				_, err := p.locker(t, opts...).TryAcquire(t.Context(), testKey(t))
				refused("TryAcquire", err)
				_, err = p.locker(t, opts...).Acquire(t.Context(), testKey(t))
				refused("Acquire", err)
			}
			c, err := p.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = p.locker(t).OnConn(c).TryAcquire(t.Context(), testKey(t))
			refused("OnConn", err)
			_, err = sqllock.RunExclusive(t.Context(), p.DB, testKey(t), nil)
			refused("RunExclusive", err)
			p.awaitInUse(t, 1)
		})
	}
}

// Every lock's token is greater than those of the key's earlier holders, whoever they were.
func TestTokensGrow(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		a, b := p.locker(t, sqllock.WithToken()), p.locker(t, sqllock.WithToken(), sqllock.WithDedicatedConn())
		plain := p.locker(t)
		c, err := p.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var last int64
		for i, l := range []sqllock.Locker{a, a, b, a, a.OnConn(c), b, a.(*sqllock.Postgres).Shared()} {
			mustExec(t, p.DB, "SELECT pg_current_xact_id()") // others have transactions, too
			lock, err := l.Acquire(t.Context(), testKey(t))
			if err != nil {
				t.Fatal(err)
			}
			if lock.Token() <= last {
				t.Errorf("%d: token %d after %d", i, lock.Token(), last)
			}
			last = lock.Token()
			mustRelease(t, lock)
		}
		// ... also of one that had to wait: the token is taken after the grant
		lock := mustTry(t, a, testKey(t))
		got := make(chan *sqllock.Lock)
		go func() {
			lock, err := b.Acquire(context.Background(), testKey(t))
			if err != nil {
				t.Error(err)
			}
			got <- lock
		}()
		awaitWaiting(t, p, "1")
		mark := value(t, p, "SELECT pg_current_xact_id()")
		mustRelease(t, lock)
		if lock = <-got; lock != nil {
			if fmt.Sprintf("%020d", lock.Token()) <= fmt.Sprintf("%020s", mark) {
				t.Errorf("token %d was taken before the grant: %s had passed", lock.Token(), mark)
			}
			mustRelease(t, lock)
		}
		lock = mustTry(t, plain, testKey(t))
		if lock.Token() != 0 {
			t.Errorf("a token that nobody asked for: %d", lock.Token())
		}
		mustRelease(t, lock)
	}, onPgx, onPQ)
}

// Several shared locks of a key on one session are several: each release gives up one.
func TestSharedLocksStack(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		l, other := p.locker(t).(*sqllock.Postgres), p.locker(t)
		var locks []*sqllock.Lock
		for range 5 {
			locks = append(locks, mustTry(t, l.Shared(), testKey(t)))
		}
		p.awaitInUse(t, 1)
		for _, lock := range locks {
			if _, err := other.TryAcquire(t.Context(), testKey(t)); !errors.Is(err, sqllock.ErrHeld) {
				t.Errorf("beside shared ones: %v", err)
			}
			mustRelease(t, lock)
		}
		mustRelease(t, mustTry(t, other, testKey(t)))
	}, onPgx, onPQ)
}

// Keys of several constructors on one server, as psql would lock them.
func TestKeysAsPsqlLocksThem(t *testing.T) {
	p := newLockPool(t, onPgx, onPgx.server(t).NewDatabase(t), true, "")
	l := p.locker(t)
	for query, key := range map[string]sqllock.Key{
		"SELECT pg_try_advisory_lock(42)":                   sqllock.ID(42),
		"SELECT pg_try_advisory_lock(-7, 7)":                sqllock.Pair(-7, 7),
		"SELECT pg_try_advisory_lock(3274422879871479876)":  sqllock.Name("x"),
		"SELECT pg_try_advisory_lock(1764327054)":           sqllock.MigrateKey("database_name"),
		"SELECT pg_try_advisory_lock(4097083626)":           sqllock.GooseKey(),
		"SELECT pg_try_advisory_lock(-9223372036854775808)": sqllock.ID(-1 << 63),
	} {
		lock := mustTry(t, l, key)
		out := p.server.Outside(t)
		if got := value(t, out, query); got != "false" {
			t.Errorf("%s beside %v: %s", query, key, got)
		}
		mustRelease(t, lock)
		if got := value(t, out, query); got != "true" {
			t.Errorf("%s: %s", query, got)
		}
		out.Close()
	}
}
