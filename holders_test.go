package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

func mustHolders(t testing.TB, db *sql.DB) []sqllock.Holder {
	t.Helper()
	found, err := sqllock.Holders(t.Context(), db)
	if err != nil {
		t.Fatalf("Holders: %v", err)
	}
	return found
}

// holdersOf returns those of one key: MySQL shows the whole server's.
func holdersOf(t testing.TB, db *sql.DB, key string) (found []sqllock.Holder) {
	t.Helper()
	for _, h := range mustHolders(t, db) {
		if h.Key == key {
			found = append(found, h)
		}
	}
	return found
}

func spelled(p *lockPool, key sqllock.Key) string {
	if p.stack.postgres() {
		return strconv.FormatInt(key.Int64(), 10)
	}
	return key.MySQLName()
}

// Who holds, who waits, and for whom.
func TestHolders(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		key := testKey(t)
		if found := holdersOf(t, p.DB, spelled(p, key)); len(found) != 0 {
			t.Fatalf("before: %+v", found)
		}
		lock := mustTry(t, p.locker(t), key)
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		waiter := p.locker(t)
		go func() {
			_, err := waiter.Acquire(ctx, key)
			waited <- err
		}()
		await(t, 5*time.Second, func() error { // a wait is sliced: between two slices it is not seen
			found := holdersOf(t, p.DB, spelled(p, key))
			if len(found) != 2 || found[0].Waiting || !found[1].Waiting {
				return fmt.Errorf("%+v", found)
			}
			return checkHolders(p, found[0], found[1])
		})
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter: %v", err)
		}
		p.awaitInUse(t, 1) // its last slice is over
		mustRelease(t, lock)
		await(t, 2*time.Second, func() error {
			if found := holdersOf(t, p.DB, spelled(p, key)); len(found) != 0 {
				return fmt.Errorf("after: %+v", found)
			}
			return nil
		})
	}, onPgx, onPQ, onMySQL, onMariaDB)
}

func checkHolders(p *lockPool, holds, waits sqllock.Holder) error {
	kind, user := "named lock", "test"
	if p.stack.postgres() {
		kind = "advisory lock"
	}
	for _, h := range []sqllock.Holder{holds, waits} {
		// Before version 14 the last statement of a pin's opening sets TCP keepalives.
		opened := p.stack.postgres() && p.server.Before(14) && strings.Contains(h.Statement, "tcp_keepalives")
		if h.Kind != kind || h.User != user || h.PID == 0 || h.Shared || h.Client == "" || h.State == "" || h.Hidden != "" ||
			!strings.Contains(strings.ToLower(h.Statement), "lock") && (h.Waiting || !p.stack.is(onMariaDB) && !opened) || h.Since.IsZero() || time.Since(h.Since) > time.Hour {
			return fmt.Errorf("%+v", h)
		}
		if p.stack.postgres() == h.Connected.IsZero() {
			return fmt.Errorf("connected at %v", h.Connected)
		}
	}
	if !slices.Equal(waits.WaitsFor, []int64{holds.PID}) || len(holds.WaitsFor) != 0 {
		return fmt.Errorf("waits for %v, want %d", waits.WaitsFor, holds.PID)
	}
	return nil
}

// Every space of keys and every mode, as PostgreSQL's users write them.
func TestHoldersKeys(t *testing.T) {
	p := newLockPool(t, onPgx, testbed.Postgres(t).NewDatabase(t), true, "application_name=nightly")
	l := p.locker(t)
	var locks []*sqllock.Lock
	for _, key := range []sqllock.Key{sqllock.ID(-1), sqllock.ID(1 << 40), sqllock.Pair(-7, 8), sqllock.Pair(7, -8)} {
		locks = append(locks, mustTry(t, l, key))
	}
	locks = append(locks, mustTry(t, l.(*sqllock.Postgres).Shared(), sqllock.ID(5)))
	var got []string
	for _, h := range mustHolders(t, p.DB) {
		got = append(got, fmt.Sprint(h.Key, " ", h.Shared))
		if h.Application != "nightly" || h.Client != "127.0.0.1" {
			t.Errorf("%+v", h)
		}
	}
	slices.Sort(got)
	if want := []string{"-1 false", "-7,8 false", "1099511627776 false", "5 true", "7,-8 false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	mustRelease(t, locks...)
}

// A role that may not see others' sessions is told which grant it takes.
func TestHoldersWithoutGrant(t *testing.T) {
	s := testbed.Postgres(t).NewDatabase(t)
	role := "r_" + strings.ToLower(strings.ReplaceAll(s.DSN()[strings.LastIndex(s.DSN(), "/")+1:], "?sslmode=disable", ""))
	out := lookAt(t, s)
	out.exec(t, "CREATE ROLE "+role+" LOGIN PASSWORD 'x'")
	t.Cleanup(func() { out.exec(t, "DROP ROLE "+role) })
	p := newLockPool(t, onPgx, s, true, "")
	lock := mustTry(t, p.locker(t), testKey(t))
	other := newLockPool(t, onPgx, s, false, "user="+role)
	found := mustHolders(t, other.DB)
	if len(found) != 1 || found[0].PID == 0 || found[0].Statement != "" || found[0].Hidden != "it is another role's session: GRANT pg_read_all_stats TO "+role {
		t.Errorf("%+v", found)
	}
	out.exec(t, "GRANT pg_read_all_stats TO "+role)
	if found := mustHolders(t, other.DB); len(found) != 1 || found[0].Hidden != "" || found[0].Statement == "" {
		t.Errorf("with the grant: %+v", found)
	}
	other.DB.Close()
	mustRelease(t, lock)
}

// MySQL names the grant in the error.
func TestHoldersWithoutGrantMySQL(t *testing.T) {
	for _, k := range []stack{onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			s := k.server(t).NewDatabase(t)
			out := lookAt(t, s)
			user := "u" + out.database(t)[2:]
			out.exec(t, "CREATE USER "+user+" IDENTIFIED BY 'x'", "GRANT ALL ON "+out.database(t)+".* TO "+user)
			t.Cleanup(func() { out.exec(t, "DROP USER "+user) })
			db, err := sql.Open("mysql", fmt.Sprintf("%s:x@tcp(%s)/%s", user, s.Addr(), out.database(t)))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if found, err := sqllock.Holders(t.Context(), db); err == nil || !strings.Contains(err.Error(), "GRANT SELECT ON performance_schema.*") {
				t.Errorf("%+v, %v", found, err)
			}
			out.exec(t, "GRANT SELECT ON performance_schema.* TO "+user)
			mustHolders(t, db)
		})
	}
}

// MariaDB by default records nothing: the error says how it would; with the plugin it does.
func TestHoldersOnPlainMariaDB(t *testing.T) {
	s := testbed.StartMariaDB(t, "--performance-schema=OFF")
	db, err := sql.Open("mysql", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := sqllock.Holders(t.Context(), db); !errors.Is(err, sqllock.ErrUnsupported) || !strings.Contains(err.Error(), "INSTALL SONAME 'metadata_lock_info'") {
		t.Fatalf("%v", err)
	}
	if _, err := db.Exec("INSTALL SONAME 'metadata_lock_info'"); err != nil {
		t.Skipf("this MariaDB comes without the plugin: %v", err)
	}
	a, b := sqllock.NewMySQL(db), sqllock.NewMySQL(db)
	lock := mustTry(t, a, sqllock.Name("settle"))
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, sqllock.Name("settle"))
		waited <- err
	}()
	await(t, 5*time.Second, func() error {
		found := mustHolders(t, db)
		if len(found) != 2 || found[0].Waiting || found[0].Key != "settle" || !found[1].Waiting || !slices.Equal(found[1].WaitsFor, []int64{found[0].PID}) {
			return fmt.Errorf("%+v", found)
		}
		return nil
	})
	cancel()
	<-waited
	await(t, 5*time.Second, func() error {
		if n := db.Stats().InUse; n != 1 {
			return fmt.Errorf("%d connections are in use", n)
		}
		return nil
	})
	mustRelease(t, lock)
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if found := mustHolders(t, db); len(found) != 0 {
		t.Errorf("after: %+v", found)
	}
}
