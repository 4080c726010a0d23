package sqllock_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

// A stmtCase is a line of testdata/cases, whose table t has one row.
type stmtCase struct {
	ID      string
	Server  string   // "mysql", "mariadb" or "both"; PostgreSQL's have none
	Run     []string // sent one by one on one pinned connection
	Held    bool     // what the server shows from outside before the connection is given back
	Verdict string   // "discard", "keep" or "either"
	Report  string   // the only report, if it is told
	Since   int      // the server's first major version that has the statement; 0: all
	Fails   bool     // the server refuses one of the statements; "either" says nothing of that
}

func readCases(t *testing.T, file string) (cases []stmtCase) {
	t.Helper()
	data, err := os.ReadFile("testdata/cases/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		var c stmtCase
		if err := d.Decode(&c); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		cases = append(cases, c)
	}
	return cases
}

func TestCasesPostgres(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, "max_prepared_transactions=10")
	cases := readCases(t, "postgres.jsonl")
	t.Run("group", func(t *testing.T) { // the server outlives the parallel tests
		onEach(t, func(t *testing.T, k stack) {
			runCases(t, k, server.NewDatabase(t), "", cases)
		}, onPgx, onPQ)
	})
}

func TestCasesMySQL(t *testing.T) {
	t.Parallel()
	cases := readCases(t, "mysql.jsonl")
	onEach(t, func(t *testing.T, k stack) {
		var own []stmtCase
		for _, c := range cases {
			if c.Server == "both" || c.Server == strings.ToLower(k.name) {
				own = append(own, c)
			}
		}
		runCases(t, k, k.server(t).NewDatabase(t), "multiStatements=true", own)
	}, onMySQL, onMariaDB)
}

func runCases(t *testing.T, k stack, s *testbed.Server, params string, cases []stmtCase) {
	o := lookAt(t, s)
	for _, c := range cases {
		for _, exec := range []bool{false, true} {
			name := c.ID + "/query"
			if exec {
				name = c.ID + "/exec"
			}
			t.Run(name, func(t *testing.T) {
				if s.Before(c.Since) {
					t.Skipf("%s has it since version %d: %q", s.Kind, c.Since, c.Run)
				}
				o.fresh(t)
				c.check(t, o.pool(t, k, s, params), exec)
			})
		}
	}
}

// fresh empties the database, but for table t.
func (o *outside) fresh(t *testing.T) {
	t.Helper()
	if o.postgres {
		prepared, err := o.list("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
		if err != nil {
			t.Fatal(err)
		}
		for _, gid := range prepared {
			o.exec(t, "ROLLBACK PREPARED '"+gid+"'")
		}
		o.exec(t, "SET client_min_messages = error", "DROP SCHEMA IF EXISTS public CASCADE", "CREATE SCHEMA public")
	} else {
		o.exec(t, "DROP TABLE IF EXISTS t, x")
	}
	o.makeTable(t)
}

func (c stmtCase) check(t *testing.T, r *rig, exec bool) {
	pin := r.pin()
	failed := false
	for _, text := range c.Run {
		// the names of prepared transactions are the server's: stacks that run side by side need their own
		text = strings.Replace(text, "PREPARE TRANSACTION '", "PREPARE TRANSACTION '"+r.stack.name+" ", 1)
		if err := c.send(pin, text, exec); err != nil {
			failed = true
			if !c.Fails && c.Verdict != "either" {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	if c.Fails && !failed {
		t.Errorf("every statement succeeded, one should not have")
	}
	if held := r.outside.held(t); (len(held) > 0) != c.Held {
		t.Errorf("before the return, the session holds %q; want some: %v", held, c.Held)
	}
	kept := r.giveBack(pin)
	r.outside.awaitFree(t, 250*time.Millisecond)
	stats := r.stats()
	switch c.Verdict {
	case "discard":
		if kept || stats.ConnsDiscarded != 1 {
			t.Errorf("kept: %v, ConnsDiscarded = %d: the connection should have been discarded", kept, stats.ConnsDiscarded)
		}
		r.outside.awaitSessions(t, "0")
	case "keep":
		if !kept || stats.ConnsDiscarded != 0 {
			t.Errorf("kept: %v, ConnsDiscarded = %d: the connection should have been kept", kept, stats.ConnsDiscarded)
		}
		if !exec && c.plain() && stats.Probes != 0 {
			t.Errorf("%d probes although every statement is plain", stats.Probes)
		}
	case "either":
	default:
		t.Fatalf("verdict %q", c.Verdict)
	}
	if stats.LocksHeld != 0 {
		t.Errorf("LocksHeld = %d after the return", stats.LocksHeld)
	}
	c.checkReports(t, r, exec)
}

// send sends text in one of the two ways. pgx cannot prepare several statements, as it does for a query.
func (c stmtCase) send(pin *sql.Conn, text string, exec bool) error {
	ctx := context.Background()
	if exec {
		_, err := pin.ExecContext(ctx, text)
		return err
	}
	err := readAll(ctx, pin, text)
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Code == "42601" && strings.Contains(e.Message, "multiple commands") {
		return readAll(ctx, pin, text, pgx.QueryExecModeSimpleProtocol)
	}
	return err
}

func (c stmtCase) checkReports(t *testing.T, r *rig, exec bool) {
	t.Helper()
	got := r.reports.take()
	want := c.Report
	if exec && want == sqllock.MisplacedUnlock.String() {
		want = "" // nobody sees what the unlock answered
	}
	switch {
	case c.Verdict == "either":
	case want != "":
		if len(got) != 1 || got[0].Kind.String() != want {
			t.Errorf("reports are %v, want one: %s\n%v", kindsOf(got), want, got)
		}
	case c.Verdict == "keep":
		if len(got) > 0 {
			t.Errorf("reports %v, want none\n%v", kindsOf(got), got)
		}
	default: // what was wrong on the way may be reported, too
		last := slices.DeleteFunc(got, func(r sqllock.Report) bool { return r.Kind == sqllock.MisplacedUnlock })
		if len(last) != 1 || last[0].Kind != sqllock.Leak && last[0].Kind != sqllock.Unverified {
			t.Errorf("reports are %v, want one: Leak or Unverified\n%v", kindsOf(got), got)
		}
	}
}

// What a statement with a plain call of a lock function looks like, and what no harmless statement contains. This
// is the rule of DESIGN.md in another hand, and narrower.
var (
	plainCall = regexp.MustCompile(`(?is)^\s*select\s+(pg_catalog\.)?` +
		`(pg_(try_)?advisory_(un)?(xact_)?lock(_shared)?\s*\(\s*-?\d+\s*(,\s*-?\d+\s*)?\)` +
		`|pg_advisory_unlock_all\s*\(\s*\)|release_all_locks\(\)` +
		`|get_lock\s*\(\s*'(?-i:[a-z]+)'\s*,\s*\d+\s*\)|release_lock\s*\(\s*'(?-i:[a-z]+)'\s*\))` +
		`(\s+as\s+\w+)?\s*;?\s*$`)
	plainOther = regexp.MustCompile(`(?is)^\s*(begin|start transaction|commit|rollback|discard all|reset all|` +
		`lock tables? t (read|write)|unlock tables|flush tables with read lock)\s*$`)
	suspicious = regexp.MustCompile(`(?is)lock|advisory|prepare|execute|fetch|move|declare|handler|backup|flush|\bdo\b|\bxa\b|;`)
)

// plain says whether every statement's effect is proven by its text and its result.
func (c stmtCase) plain() bool {
	for _, text := range c.Run {
		if !plainCall.MatchString(text) && !plainOther.MatchString(text) && suspicious.MatchString(text) {
			return false
		}
	}
	return true
}
