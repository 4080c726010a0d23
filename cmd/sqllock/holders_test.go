package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

// holders shows who holds and who waits, by the names that it was told.
func TestHolders(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		key := keyOf(t)
		end := holding(t, s, key)
		waiter := command(t, s, "run", "--key", key, "--", "true")
		waiter.start(t)
		await(t, 10*time.Second, func() error {
			c := command(t, s, "holders", "--json", "--name", key)
			if code := c.code(t); code != 0 {
				return fmt.Errorf("%d: %s", code, c.err)
			}
			var all []namedHolder
			if err := json.Unmarshal(c.out.Bytes(), &all); err != nil {
				return err
			}
			mine := slices.DeleteFunc(all, func(h namedHolder) bool { return h.Name != key })
			if len(mine) != 2 || mine[0].Waiting || !mine[1].Waiting || !slices.Equal(mine[1].WaitsFor, []int64{mine[0].PID}) {
				return fmt.Errorf("%s", c.out)
			}
			return nil
		})
		c := command(t, s, "holders", "--name", key)
		if code := c.code(t); code != 0 || !strings.HasPrefix(c.out.String(), "KEY ") || !strings.Contains(c.out.String(), key) {
			t.Errorf("%d, %s%s", code, c.out, c.err)
		}
		end()
		if code := exitCode(t, waiter.Wait()); code != 0 {
			t.Errorf("the waiter: %d, %s", code, waiter.err)
		}
	})
}

// break ends one session, and only with somebody's word.
func TestBreak(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		key := keyOf(t)
		if c := command(t, s, "break", "--yes", "--key", key); c.code(t) != 1 || !strings.Contains(c.err.String(), "nobody holds "+key) {
			t.Errorf("%s%s", c.out, c.err)
		}
		run := command(t, s, "run", "--key", key, "--", "sleep", "60")
		run.start(t)
		await(t, 10*time.Second, func() error {
			if c := command(t, s, "break", "--key", key); c.code(t) != exUsage || !strings.Contains(c.err.String(), "--yes") {
				return fmt.Errorf("without a word: %s%s", c.out, c.err)
			}
			return nil
		})
		if len(s.Held(t)) != 1 {
			t.Errorf("held after a break that nobody confirmed: %v", s.Held(t))
		}
		c := command(t, s, "break", "--yes", "--key", key)
		if code := c.code(t); code != 0 || !strings.Contains(c.out.String(), "ended session") {
			t.Errorf("%d: %s%s", code, c.out, c.err)
		}
		if code := exitCode(t, run.Wait()); code != exTempFail {
			t.Errorf("the broken one: %d", code)
		}
	})
}

// Where several share a lock, break wants to know which.
func TestBreakShared(t *testing.T) {
	s := testbed.Postgres(t).NewDatabase(t)
	endA, endB := holding(t, s, "report", "-s"), holding(t, s, "report", "-s")
	c := command(t, s, "break", "--yes", "--key", "report")
	if code := c.code(t); code != exUsage || !strings.Contains(c.err.String(), "--pid") || len(s.Held(t)) != 2 {
		t.Errorf("%d: %s%s", code, c.out, c.err)
	}
	endA()
	endB()
	s.AwaitFree(t, time.Second)
}

// A role that may not is told what it takes.
func TestBreakWithoutGrant(t *testing.T) {
	s := testbed.Postgres(t).NewDatabase(t)
	out := s.Outside(t)
	role := "breaker_" + s.DSN()[strings.LastIndex(s.DSN(), "/t_")+3:][:12]
	for _, q := range []string{"CREATE ROLE " + role + " LOGIN"} {
		if _, err := out.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { out.Exec("DROP ROLE " + role) })
	end := holding(t, s, "k")
	c := command(t, nil, "break", "--yes", "--key", "k", "--dsn", s.DSN()+"&user="+role)
	if code := c.code(t); code != exNoPerm || !strings.Contains(c.err.String(), "pg_signal_backend") {
		t.Errorf("%d: %s", code, c.err)
	}
	end()
	s.AwaitFree(t, time.Second)
}

// check exits with 1 on an error, and has no colours where nobody looks.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		server func(testing.TB) *testbed.Server
		args   []string
		code   int
		says   string
	}{
		"PostgreSQL":  {testbed.Postgres, nil, 0, "nothing is wrong"},
		"MySQL":       {testbed.MySQL, nil, 0, "MySQL "},
		"MariaDB":     {testbed.MariaDB, nil, 0, "MariaDB "},
		"transaction": {func(t testing.TB) *testbed.Server { return testbed.PgBouncer(t, "transaction") }, nil, 1, "RunExclusive"},
		"allowed":     {func(t testing.TB) *testbed.Server { return testbed.PgBouncer(t, "transaction") }, []string{"--transaction-locks"}, 0, "transaction mode"},
		"standby":     {func(t testing.TB) *testbed.Server { return testbed.StartPostgres(t).StartStandby(t) }, nil, 1, "this server is a standby"},
		"JSON":        {func(t testing.TB) *testbed.Server { return testbed.PgBouncer(t, "statement") }, []string{"--json"}, 1, `"pooler":"statement"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call := command(t, c.server(t), append([]string{"check"}, c.args...)...)
			if code := call.code(t); code != c.code || !strings.Contains(call.out.String(), c.says) || call.err.Len() != 0 || strings.Contains(call.out.String(), "\x1b") {
				t.Errorf("%d: %s%s", code, call.out, call.err)
			}
		})
	}
}

// key shows what other languages need: the values are frozen.
func TestKey(t *testing.T) {
	c := command(t, nil, "key", "daily-settlement", "--json")
	if code := c.code(t); code != 0 {
		t.Fatalf("%d: %s", code, c.err)
	}
	var info keyInfo
	if err := json.Unmarshal(c.out.Bytes(), &info); err != nil {
		t.Fatal(err)
	}
	if info.Postgres != -2533923874772390729 || info.MySQL != "daily-settlement" || int64(info.ClassID)<<32|int64(info.ObjID) != info.Postgres {
		t.Errorf("%+v", info)
	}
	var server int64
	if err := testbed.Postgres(t).Outside(t).QueryRow(info.FromSQL).Scan(&server); err != nil || server != info.Postgres {
		t.Errorf("%s gives %d, %v", info.FromSQL, server, err)
	}
	if code := command(t, nil, "key").code(t); code != exUsage {
		t.Errorf("without a name: %d", code)
	}
}

// Every command helps, and the shells are told how to complete it.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"holders", "--help"}, {"break", "--help"}, {"check", "--help"}, {"key", "--help"}, {"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}, {"--version"}} {
		c := command(t, nil, args...)
		if code := c.code(t); code != 0 || c.out.Len() == 0 || c.err.Len() != 0 {
			t.Errorf("%q: %d, %s", args, code, c.err)
		}
		if len(args) > 1 && args[1] == "--help" && !strings.Contains(c.out.String(), "Examples:") {
			t.Errorf("%q shows no example", args)
		}
	}
	for _, args := range [][]string{{"nonsense"}, {"holders", "x"}, {"--nonsense"}, {"holders", "--watch"}} {
		c := command(t, nil, args...)
		c.Env = append(c.Env, "SQLLOCK_DSN=postgres://x@127.0.0.1/x")
		if code := c.code(t); code != exUsage || strings.Count(c.err.String(), "\n") != 1 {
			t.Errorf("%q: %d, %s", args, code, c.err)
		}
	}
}

// A table fits the terminal, whatever the server shows.
func TestTableFits(t *testing.T) {
	now := time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC)
	holders := []namedHolder{
		{"daily-settlement", sqllock.Holder{Key: "-2533923874772390729", PID: 12345, Client: "10.20.30.40", User: "app", Application: "sqllock run daily-settlement", State: "idle", Statement: "SELECT\n\x1b[31m pg_catalog.pg_try_advisory_lock($1)", Connected: now.Add(-3 * time.Hour)}},
		{"", sqllock.Holder{Key: "-9223372036854775808", PID: 1234567, Waiting: true, WaitsFor: []int64{12345}, Since: now.Add(-1500 * time.Millisecond), Statement: strings.Repeat("é", 300)}},
	}
	for _, width := range []int{10, 40, 80, 120, 200} {
		for _, l := range holderTable(holders, now, width) {
			if n := utf8.RuneCountInString(l); n > max(width, 20) || strings.ContainsAny(l, "\x1b\n") {
				t.Errorf("at %d: %d wide: %q", width, n, l)
			}
		}
	}
	wide := strings.Join(holderTable(holders, now, 0), "\n")
	for _, want := range []string{"daily-settlement", "waits for 12345", "3h0m", "2s", "10.20.30.40", "SELECT ?[31m pg_catalog.pg_try_advisory_lock($1)"} {
		if !strings.Contains(wide, want) {
			t.Errorf("without %q:\n%s", want, wide)
		}
	}
}

// A DSN is read in every form, and none is printed.
func TestDSNForms(t *testing.T) {
	for dsn, want := range map[string]string{
		"mysql://u:p%40ss@h/db":                           "u:p@ss@tcp(h:3306)/db",
		"mysql2://u:p@h:3307/db?tls=true":                 "u:p@tcp(h:3307)/db?tls=true",
		"mariadb://u@[::1]:3306/db":                       "u@tcp([::1]:3306)/db",
		"u:p://x@tcp(h:1)/db":                             "u:p://x@tcp(h:1)/db",
		"u:p@unix(/run/mysqld.sock)/db?interpolateParams": "u:p@unix(/run/mysqld.sock)/db?interpolateParams",
	} {
		if got, err := mysqlForm(dsn); !isMySQL(dsn) || got != want || err != nil {
			t.Errorf("%s: %v, %q, %v", dsn, isMySQL(dsn), got, err)
		}
	}
	for _, dsn := range []string{"postgres://u:p@h/db", "postgresql://h", "host=h password=x@tcpy", ""} {
		if isMySQL(dsn) {
			t.Errorf("%s is taken for MySQL's", dsn)
		}
	}
}
