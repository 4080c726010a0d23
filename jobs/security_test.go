package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
)

// hostileNames differ, in part, only in what a server may fold.
func hostileNames() []string {
	names := []string{
		"a", "A", "á", "a\u0301", "ß", "ss", "ı", "i", "I", "a b", "a  b", "a\tb", "a\nb", "a\u00a0b", "a\u200b", "a\ufeff",
		"x'; DROP TABLE job_runs; --", `x\'; DROP TABLE job_runs; -- `, `x"`, `x""`, "x`", "x``", `x\`, `x\\`, "x'", "x''", "x/*", "x--", "$1", "?", ":x", "%s%n", "{table}", "$$x$$",
		"\u202egnol\u202c", "\u2066x\u2069", "سر", "😀", "😁", "x\x1b[2J", "x\u009b2J", "x\r\njobs: forged", "x\x7f", ".", "..", "a.b", "job_runs",
		"x\x00", "\x00", "x\xff", "x\xed\xa0\x80", "", " x", "x ", "\tx",
		strings.Repeat("😀", 100), strings.Repeat("😀", 101), strings.Repeat("x", 1<<20), "x\x00" + strings.Repeat("x", 1<<20),
	}
	for n := 60; n < 67; n++ {
		names = append(names, strings.Repeat("y", n))
	}
	return names
}

func legible(t *testing.T, text string) {
	t.Helper()
	if len(text) > 2000 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("no person can read %d bytes: %.300q", len(text), text)
	}
}

// A job's name is refused at once, or is one more job.
func TestHostileJobs(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r, again := open(t, s), open(t, s)
		taken := 0
		for _, job := range hostileNames() {
			outcome, err := r.Do(t.Context(), job, slot0, done)
			if err != nil {
				legible(t, err.Error())
				if !strings.HasPrefix(err.Error(), "jobs: job ") && job != "" {
					t.Errorf("job %.50q is refused by somebody else: %v", job, err)
				}
				continue
			}
			taken++
			if outcome != jobs.Ran {
				t.Errorf("job %q is another's: %v", job, outcome)
			}
			again.do(t, job, slot0, jobs.AlreadySucceeded, done)
			if h := again.history(t, job); len(h) != 1 {
				t.Errorf("job %q has %d rows", job, len(h))
			}
			if _, err := r.Do(t.Context(), job, slot0.Add(time.Hour), func(context.Context, *jobs.Run) error { return errors.New("x") }); err != nil {
				legible(t, err.Error())
			}
		}
		if taken < 50 {
			t.Errorf("only %d names were taken", taken)
		}
	})
}

// A table's name is refused, or makes one more table that every ledger of that name finds again.
func TestHostileTables(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		taken := 0
		for _, name := range hostileNames() {
			if hostileTable(t, s, name) {
				taken++
			}
		}
		if taken < 45 {
			t.Errorf("only %d names were taken", taken)
		}
		open(t, s).do(t, "j", slot0, jobs.AlreadySucceeded, done) // of the table job_runs
	})
}

func hostileTable(t *testing.T, s *testbed.Server, name string) (taken bool) {
	for _, want := range []jobs.Outcome{jobs.Ran, jobs.AlreadySucceeded} {
		r, err := newReplica(s.DSN(), isPostgres(s), jobs.WithTable(name))
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		if err := r.Create(t.Context()); err != nil {
			legible(t, err.Error())
			return false
		}
		if outcome, err := r.Do(t.Context(), "j", slot0, done); outcome != want || err != nil {
			t.Errorf("table %q, which was made: %v, %v", name, outcome, err)
		}
	}
	return true
}

// What a ledger notes of hosts and errors is others' text: it is kept as far as the server can.
func TestHostileNotes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		for i, text := range hostileNames() {
			r := open(t, s, jobs.WithHost(text))
			slot := slot0.Add(time.Duration(i) * time.Minute)
			if outcome, err := r.Do(t.Context(), "j", slot, func(context.Context, *jobs.Run) error { return errors.New(text) }); outcome != jobs.Ran || err == nil {
				t.Errorf("%.50q: %v, %.300v", text, outcome, err)
			}
			if rows, err := r.Runs(t.Context(), "j", 1); err != nil || len(rows) != 1 || rows[0].Status != jobs.StatusFailed || len(rows[0].Host) > 255 {
				t.Errorf("%.50q: %.300v, %v", text, rows, err)
			}
			r.close()
		}
	})
}
