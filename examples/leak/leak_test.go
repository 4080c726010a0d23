package main

import (
	"bytes"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sqllock/sqllock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

func TestEmbedded(t *testing.T) {
	check(t, "", "mysql-sqllock", `named lock nightly-report \(exclusive\)`)
}

func TestPostgres(t *testing.T) {
	check(t, testbed.Postgres(t).NewDatabase(t).DSN(), "pgx-sqllock", `advisory lock 730154001 \(exclusive\)`)
}

func TestMySQL(t *testing.T) {
	check(t, testbed.MySQL(t).DSN(), "mysql-sqllock", `named lock nightly-report \(exclusive\)`)
}

func TestMariaDB(t *testing.T) {
	check(t, testbed.MariaDB(t).DSN(), "mysql-sqllock", `named lock nightly-report \(exclusive\)`)
}

// check runs the program. It has to say what follows, in this order, and to report one leak.
func check(t *testing.T, dsn, guarded, lock string) {
	t.Helper()
	defer log.SetOutput(os.Stderr)
	var out bytes.Buffer
	if err := run(t.Context(), &out, dsn); err != nil {
		t.Fatalf("%v, after:\n%s", err, &out)
	}
	says := strings.Join([]string{
		"PART 1", "idle connections in its pool: 1", "replica two: busy",
		`PART 2: sql.Open\("` + guarded, "still holding a session lock: discarded",
		lock, `nightlyReport \(.*main.go:\d+\)`, "remedy: release the lock", // the thing, the place, the remedy
		"idle connections in its pool: 0", `replica two: got the lock and wrote the report \d{1,3}\.\d ms later`,
	}, "(?s:.*)")
	if !regexp.MustCompile(says).Match(out.Bytes()) || strings.Count(out.String(), "WARN sqllock:") != 1 {
		t.Errorf("want %s\ngot %s", says, &out)
	}
}
