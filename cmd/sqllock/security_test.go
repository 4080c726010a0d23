package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sqllock/sqllock/internal/testbed"
)

// hostileNames are texts that an argument can be. Each has own in it, because MySQL's locks are the whole server's.
func hostileNames(own string) (names []string) {
	for _, n := range []string{
		"%'; DROP TABLE job_runs; --", `%\'; -- `, `%"`, "%`", `%\`, "%''", "%/*", "%$1 ? {table}", "%$(touch /tmp/x)", "-%",
		"\u202egnol%\u202c", "\u2066%\u2069", "%\u200b", "سر%", "%😀", "% \x1b[2J\x1b]0;x\a", "%\u009b2J", "%\r\nsqllock: forged", "%\x7f", " %", "% ",
		"%" + strings.Repeat("x", 100_000),
	} {
		names = append(names, strings.Replace(n, "%", own, 1))
	}
	return names
}

// wantLegible fails t unless a terminal shows the text as it is.
func wantLegible(t testing.TB, text string) {
	t.Helper()
	bad := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, bad) {
		t.Errorf("a terminal would be commanded by %.400q", text)
	}
}

// Every name locks, is known again, and reaches the terminal harmlessly.
func TestHostileKeys(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		for _, name := range hostileNames(keyOf(t)) {
			inner := []string{"run", "-v", "-n", "-E", "7", "--key=" + name, "--", binary(t), "run", "-n", "-E", "7", "--key=" + name, "--", "true"}
			c := command(t, s, inner...)
			if code := c.code(t); code != 7 || !strings.Contains(c.err.String(), "is held by ") {
				t.Errorf("%.80q: %d, %.300s", name, code, c.err)
			}
			wantLegible(t, c.out.String()+c.err.String())
			c = command(t, s, "break", "--yes", "--key="+name)
			if code := c.code(t); code != 1 {
				t.Errorf("%.80q: break: %d, %.300s", name, code, c.err)
			}
			wantLegible(t, c.out.String()+c.err.String())
		}
	})
}

// What the command shows of a name can be pasted: it is the same name there.
func TestHostileKeyIsShown(t *testing.T) {
	db := testbed.Postgres(t).Outside(t)
	for _, name := range hostileNames("x") {
		c := command(t, nil, "key", "--", name)
		if code := c.code(t); code != 0 {
			t.Errorf("%.80q: %d, %s", name, code, c.err)
		}
		wantLegible(t, c.out.String())
		c = command(t, nil, "key", "--json", "--", name)
		c.code(t)
		wantLegible(t, c.out.String())
		var info keyInfo
		var server int64
		if err := json.Unmarshal(c.out.Bytes(), &info); err != nil || info.Key != name {
			t.Fatalf("%.80q comes as %.80q, %v", name, info.Key, err)
		}
		if err := db.QueryRow(info.FromSQL).Scan(&server); err != nil || server != info.Postgres {
			t.Errorf("%.200s gives %d, %v, want %d", info.FromSQL, server, err, info.Postgres)
		}
	}
}

// Sessions, their clients and their statements are others' text.
func TestHostileHolders(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		hold := "SELECT GET_LOCK(?, 0) /* \x1b[2J \u202e \u009b */"
		if s.Kind == testbed.KindPostgres {
			hold = "SELECT pg_try_advisory_lock(hashtext($1)) /* \x1b[2J \u202e \u009b */"
		}
		db := s.Outside(t)
		defer db.Close()
		for _, name := range hostileNames(keyOf(t))[:21] {
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.ExecContext(t.Context(), hold, name[max(0, len(name)-64):]); err != nil && s.Kind != testbed.KindMySQL {
				t.Fatal(err) // MySQL's own names have no room for every character
			}
		}
		wantLegibleHolders(t, s, 20)
	})
}

func wantLegibleHolders(t *testing.T, s *testbed.Server, least int) {
	c := command(t, s, "holders")
	if code := c.code(t); code != 0 {
		t.Errorf("%d, %s", code, c.err)
	}
	wantLegible(t, c.out.String())
	c = command(t, s, "holders", "--json")
	c.code(t)
	wantLegible(t, c.out.String())
	var all []namedHolder
	if err := json.Unmarshal(c.out.Bytes(), &all); err != nil || len(all) < least {
		t.Errorf("%d holders, %v", len(all), err)
	}
}

// A ledger keeps names, hosts and errors as they came.
func TestHostileHistory(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		for _, name := range hostileJobs() {
			c := command(t, s, "run", "--once", "--slot=2031-05-06", "--key="+name, "--", "false")
			if code := c.code(t); code != 1 {
				t.Errorf("%q: %d, %s", name, code, c.err)
			}
			c = command(t, s, "run", "--once", "--slot=2031-05-06", "--key="+name, "--table=odd\x1b\u202e", "--", "true")
			if code := c.code(t); code != 0 {
				t.Errorf("%q: %d, %s", name, code, c.err)
			}
			wantLegible(t, c.err.String())
		}
		db := s.Outside(t)
		if _, err := db.Exec("UPDATE job_runs SET host = '\x1b[2J\u202e', error = '\u009b2J\u2066'"); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"history"}, {"history", "--json"}, {"history", "--table=odd\x1b\u202e"}, {"history", "--table=no\x1b\u202e"}} {
			c := command(t, s, args...)
			c.code(t)
			wantLegible(t, c.out.String()+c.err.String())
			if n := strings.Count(c.out.String(), "2031-05-06"); n != len(hostileJobs()) && args[len(args)-1] != "--table=no\x1b\u202e" {
				t.Errorf("%q shows %d slots: %s", args, n, c.err)
			}
		}
	})
}

// hostileJobs are the names that a ledger takes: spaces around a name are refused, and so is more than its column has room for.
func hostileJobs() []string {
	return slices.DeleteFunc(hostileNames("job"), func(n string) bool { return strings.TrimSpace(n) != n || len(n) > 100 })
}

const planted = "pl4nted-s3cret"

// No command prints a password: not where all is well, not where the DSN is wrong, and not where it was given in the wrong place.
func TestSecretIsNeverPrinted(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		dsn := withSecret(t, s)
		for _, c := range []*call{
			command(t, nil, "run", "-v", "--key=k", "--dsn="+dsn, "--", "true"),
			command(t, nil, "run", "-v", "--once", "--slot=2031-05-06", "--key=k", "--dsn="+dsn, "--", "true"),
			command(t, nil, "run", "-v", "--key=k", "--dsn="+dsn, "--", "/no/such"),
			command(t, nil, "holders", "--dsn="+dsn), command(t, nil, "holders", "--json", "--dsn="+dsn),
			command(t, nil, "break", "--key=k", "--dsn="+dsn), command(t, nil, "check", "--dsn="+dsn), command(t, nil, "check", "--json", "--dsn="+dsn),
			command(t, nil, "history", "--dsn="+dsn), command(t, nil, "history", "--table=none", "--dsn="+dsn),
			command(t, nil, "--dsn="+dsn, "--help"), command(t, nil, "run", "--dsn="+dsn, "--help"), command(t, nil, "--dsn="+dsn, "--nonsense"),
			command(t, nil, dsn), command(t, nil, "check", dsn), command(t, nil, "-dsn="+dsn), command(t, nil, "run", "-w", dsn), command(t, nil, "run", "--id="+dsn, "--", "true"),
			command(t, nil, "run", "--pair="+dsn, "--", "true"), command(t, nil, "run", "--grace="+dsn), command(t, nil, "run", "--once", "--key=k", "--slot="+dsn, "--", "true"), command(t, nil, "__complete", "run", "--dsn="+dsn, ""),
			command(t, nil, "run", "--key=k", "--dsn="+dsn+"&nonsense=%zz", "--", "true"), command(t, nil, "run", "--key=k", "--dsn=x"+dsn, "--", "true"),
		} {
			code := c.code(t)
			if said := c.out.String() + c.err.String(); strings.Contains(said, planted) || said == "" && code != 0 {
				t.Errorf("%q: %d, %s", c.Args[1:], code, strings.ReplaceAll(said, planted, "<<SECRET>>"))
			}
		}
	})
}

// withSecret returns a DSN that works and has the password planted.
func withSecret(t testing.TB, s *testbed.Server) string {
	t.Helper()
	if s.Kind == testbed.KindPostgres { // which trusts everybody here
		return strings.Replace(s.DSN(), "test:test@", "test:"+planted+"@", 1)
	}
	user, database := account(t, s)
	mustExec(t, s.Outside(t), "ALTER USER "+user+" IDENTIFIED BY '"+planted+"'", "GRANT ALL ON *.* TO "+user)
	return fmt.Sprintf("mysql://%s:%s@%s/%s?timeout=5s", user, planted, s.Addr(), database)
}

// account makes a user who may do nothing but connect, with the password x, and returns the database's name too.
func account(t testing.TB, s *testbed.Server) (user, database string) {
	t.Helper()
	out := s.Outside(t)
	query := "SELECT DATABASE()"
	if s.Kind == testbed.KindPostgres {
		query = "SELECT current_database()"
	}
	if err := out.QueryRow(query).Scan(&database); err != nil {
		t.Fatal(err)
	}
	user = strings.Replace(database, "t_", fmt.Sprintf("u%d_", accounts()), 1)
	if s.Kind == testbed.KindPostgres {
		mustExec(t, out, "CREATE ROLE "+user+" LOGIN")
	} else {
		mustExec(t, out, "CREATE USER "+user+" IDENTIFIED BY 'x'", "GRANT SELECT ON "+database+".* TO "+user)
	}
	t.Cleanup(func() { mustExec(t, out, "DROP USER "+user) })
	return user, database
}

func dsnOf(s *testbed.Server, user, database string) string {
	if s.Kind == testbed.KindPostgres {
		return s.DSN() + "&user=" + user
	}
	return fmt.Sprintf("mysql://%s:x@%s/%s", user, s.Addr(), database)
}

func mustExec(t testing.TB, db *sql.DB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// leastPrivilege is what SECURITY.md says that it takes to see and to end others' sessions, and the remedy that is shown without.
var leastPrivilege = map[string]struct {
	see, end          []string // GRANT these TO user
	seeHint, endHint  string
	blindCode, endErr int
}{
	testbed.KindPostgres: {[]string{"pg_read_all_stats"}, []string{"pg_signal_backend"}, "GRANT pg_read_all_stats TO ", "pg_signal_backend", 0, exNoPerm},
	testbed.KindMySQL:    {[]string{"SELECT ON performance_schema.*"}, []string{"CONNECTION_ADMIN ON *.*"}, "GRANT SELECT ON performance_schema.*", "CONNECTION_ADMIN", exNoPerm, exNoPerm},
	testbed.KindMariaDB:  {[]string{"SELECT ON performance_schema.*", "PROCESS ON *.*"}, []string{"CONNECTION ADMIN ON *.*"}, "GRANT SELECT ON performance_schema.*", "CONNECTION_ADMIN", exNoPerm, exNoPerm},
}

// The grants that are documented are enough, and without them the remedy names them.
func TestLeastPrivilege(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		key, p, out := keyOf(t), leastPrivilege[s.Kind], s.Outside(t)
		victim, database := account(t, s)
		end := holdingAs(t, s, dsnOf(s, victim, database), key)
		defer end()
		watcher, _ := account(t, s)
		as := func(args ...string) *call {
			return command(t, nil, append(args, "--dsn="+dsnOf(s, watcher, database))...)
		}
		grant := func(grants []string) {
			for _, g := range grants {
				mustExec(t, out, "GRANT "+g+" TO "+watcher)
			}
		}
		c := as("holders", "--name="+key)
		if code := c.code(t); code != p.blindCode || !strings.Contains(c.out.String()+c.err.String(), p.seeHint) || strings.Contains(c.out.String(), "idle") {
			t.Errorf("without a grant: %d, %s%s", code, c.out, c.err)
		}
		grant(p.see)
		c = as("holders", "--name="+key)
		if code := c.code(t); code != 0 || !strings.Contains(c.out.String(), victim) || strings.Contains(c.out.String(), "not shown in full") {
			t.Errorf("with %q: %d, %s%s", p.see, code, c.out, c.err)
		}
		c = as("break", "--yes", "--key="+key)
		if code := c.code(t); code != p.endErr || !strings.Contains(c.err.String(), p.endHint) || len(s.Held(t)) != 1 {
			t.Errorf("break without a grant: %d, %s%s", code, c.out, c.err)
		}
		grant(p.end)
		c = as("break", "--yes", "--key="+key)
		if code := c.code(t); code != 0 {
			t.Errorf("break with %q: %d, %s%s", p.end, code, c.out, c.err)
		}
	})
}

// holdingAs keeps the key in a session of the DSN's user until the end.
func holdingAs(t testing.TB, s *testbed.Server, dsn, key string) (end func()) {
	t.Helper()
	run := command(t, nil, "run", "--key="+key, "--dsn="+dsn, "--", "sleep", "60")
	run.start(t)
	await(t, 10*time.Second, func() error {
		if n := len(s.Held(t)); n != 1 {
			return fmt.Errorf("%d locks are held", n)
		}
		return nil
	})
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		go func() { <-ctx.Done(); run.Process.Kill() }()
		if code := exitCode(t, run.Wait()); code != exTempFail {
			t.Errorf("the broken one: %d, %s", code, run.err)
		}
	}
}

var accountsMade atomic.Int64

func accounts() int64 { return accountsMade.Add(1) }
