package sqllock_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

func childLocker(t testing.TB, driver, dsn string, opts ...sqllock.LockerOption) wholeLocker {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxIdleConns(2 * fightKeys)
	if strings.HasPrefix(driver, "mysql") {
		return sqllock.NewMySQL(db, opts...)
	}
	return sqllock.NewPostgres(db, opts...)
}

const (
	processes  = 4
	goroutines = 32
	fightKeys  = 3
)

// Critical sections of many goroutines in several processes never overlap. Each writes its name into the key's row, looks
// whether the row was empty, and empties it again: in two statements, so that an overlap shows.
func TestMutualExclusion(t *testing.T) {
	sections := 1000
	switch {
	case os.Getenv("SQLLOCK_TEST_LONG") != "":
		sections = 10_000
	case testing.Short():
		sections = 200
	}
	for _, k := range []stack{onPgx, onPQ, onMySQL, onMariaDB} {
		t.Run(k.name, func(t *testing.T) {
			s := k.server(t).NewDatabase(t)
			p := newLockPool(t, k, s, false, "")
			for _, text := range []string{
				"CREATE TABLE arena (k INT PRIMARY KEY, who VARCHAR(40), entered INT NOT NULL, clashes INT NOT NULL)",
				"INSERT INTO arena VALUES (0, NULL, 0, 0), (1, NULL, 0, 0), (2, NULL, 0, 0)",
			} {
				if _, err := p.Exec(text); err != nil {
					t.Fatal(err)
				}
			}
			start := time.Now()
			fight(t, k, s, sections)
			sum := value(t, p, "SELECT SUM(entered) FROM arena")
			if sum != fmt.Sprint(sections/processes*processes) {
				t.Errorf("%s sections, want %d", sum, sections)
			}
			if n := value(t, p, "SELECT SUM(clashes) FROM arena"); n != "0" {
				t.Errorf("%s sections overlapped", n)
			}
			if n := value(t, p, "SELECT COUNT(who) FROM arena"); n != "0" {
				t.Errorf("%s sections have not ended", n)
			}
			t.Logf("%s sections in %v", sum, time.Since(start).Round(time.Millisecond))
		})
	}
}

// fight lets the processes do so many sections together.
func fight(t *testing.T, k stack, s *testbed.Server, sections int) {
	var ended []*bufio.Scanner
	for range processes {
		_, in, out := child(t, "fight", k, s)
		fmt.Fprintln(in, sections/processes)
		ended = append(ended, out)
	}
	for _, out := range ended {
		if !out.Scan() || out.Text() != "done" {
			t.Errorf("a process says %q, %v", out.Text(), out.Err())
		}
	}
}

// childFights is one of the processes. Every third section is tried for first.
func childFights(t *testing.T, driver, dsn string) {
	var left atomic.Int64
	var n int64
	if _, err := fmt.Scanln(&n); err != nil {
		t.Fatal(err)
	}
	left.Store(n)
	l := childLocker(t, driver, dsn)
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(4)
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			for section := left.Add(-1); section >= 0; section = left.Add(-1) {
				if err := fightOnce(l, db, i, section, dsn); err != nil {
					fmt.Println(err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := l.Close(); err != nil {
		fmt.Println(err)
	}
	fmt.Println("done")
}

func fightOnce(l sqllock.Locker, db *sql.DB, i int, section int64, dsn string) error {
	k := i % fightKeys
	key := sqllock.Namespace(dsn).Name(fmt.Sprint(k))
	if section%3 == 0 {
		ran, err := sqllock.Run(context.Background(), l, key, func(context.Context) error { return critical(db, k) })
		if ran || err != nil {
			return err
		}
	}
	lock, err := l.Acquire(context.Background(), key)
	if err != nil {
		return err
	}
	if err := critical(db, k); err != nil {
		return err
	}
	return lock.Release()
}

// critical is a section that sees whether another one is in it.
func critical(db *sql.DB, k int) error {
	_, err := db.Exec(fmt.Sprintf("UPDATE arena SET clashes = clashes + CASE WHEN who IS NULL THEN 0 ELSE 1 END, who = 'me', entered = entered + 1 WHERE k = %d", k))
	if err != nil {
		return err
	}
	_, err = db.Exec(fmt.Sprintf("UPDATE arena SET who = NULL WHERE k = %d", k))
	return err
}
