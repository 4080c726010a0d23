package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock/internal/testbed"
)

// A slot runs once, however late the others come; what became of it is in the history.
func TestRunOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		job := strings.ReplaceAll(keyOf(t), ".", "-")
		once := func(slot string, args ...string) *call {
			return command(t, s, append([]string{"run", "--key", job, "--once", "--slot", slot}, args...)...)
		}
		c := once("2026-12-02", "--", "sh", "-c", "echo $SQLLOCK_KEY $SQLLOCK_SLOT $SQLLOCK_TOKEN")
		if code := c.code(t); code != 0 || !strings.HasPrefix(c.out.String(), job+" 2026-12-02T00:00:00") {
			t.Fatalf("%d, %s%s", code, c.out, c.err)
		}
		for flags, want := range map[string]int{"": 1, "-E 0": 0, "-E 9 -n": 9} {
			c := once("2026-12-02", append(strings.Fields(flags), "--", "echo", "again")...)
			if code := c.code(t); code != want || c.out.Len() != 0 || strings.Count(c.err.String(), "\n") != 1 || !strings.Contains(c.err.String(), "already succeeded") {
				t.Errorf("again with %q: %d, %s%s", flags, code, c.out, c.err)
			}
		}
		for range 3 {
			if code := once("2026-12-03", "--", "sh", "-c", "exit 7").code(t); code != 7 {
				t.Errorf("a command that fails: %d", code)
			}
		}
		if c := once("2026-12-03", "--", "true"); c.code(t) != exUnavailable || !strings.Contains(c.err.String(), "attempts used up") {
			t.Errorf("after three failures: %s", c.err)
		}
		if code := once("2026-12-04", "--", "/no/such").code(t); code != exUnavailable {
			t.Errorf("a missing command: %d", code)
		}
		checkHistory(t, s, job)
	})
}

func checkHistory(t *testing.T, s *testbed.Server, job string) {
	t.Helper()
	c := command(t, s, "history", "--key", job, "--json")
	if code := c.code(t); code != 0 {
		t.Fatalf("%d: %s", code, c.err)
	}
	var records []slotRecord
	if err := json.Unmarshal(c.out.Bytes(), &records); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range records {
		got = append(got, r.Slot.Format(time.DateOnly)+" "+r.Status+" "+r.Error)
	}
	want := "2026-12-04 failed cannot run /no/such: fork/exec /no/such: no such file or directory|2026-12-03 failed the command failed: exit code 7|2026-12-02 succeeded "
	if strings.Join(got, "|") != want {
		t.Errorf("%q", got)
	}
	c = command(t, s, "history")
	if code := c.code(t); code != 0 || !strings.HasPrefix(c.out.String(), "JOB ") || strings.Count(c.out.String(), "\n") < 4 {
		t.Errorf("%d: %s%s", code, c.out, c.err)
	}
}

// Hosts whose clocks differ by more than the job takes run a slot once all the same.
func TestOnceRace(t *testing.T) {
	rounds := 5
	if os.Getenv("SQLLOCK_TEST_LONG") != "" {
		rounds = 200
	}
	onEach(t, func(t *testing.T, s *testbed.Server) {
		ran := filepath.Join(t.TempDir(), "ran")
		for i := range rounds {
			slot := time.Date(2026, 1, 1, 0, 0, 0, 0, time.Local).AddDate(0, 0, i).Format(time.DateOnly)
			var hosts []*call
			for range 3 {
				c := command(t, s, "run", "--key", "race", "--once", "--slot", slot, "--", "sh", "-c", "echo $SQLLOCK_SLOT >>"+ran)
				c.start(t)
				hosts = append(hosts, c)
			}
			codes := map[int]int{}
			for _, c := range hosts {
				codes[exitCode(t, c.Wait())]++
			}
			text, _ := os.ReadFile(ran)
			if codes[0] != 1 || codes[1] != 2 || strings.Count(string(text), "\n") != i+1 {
				t.Fatalf("round %d: exit codes %v, ran\n%s\n%s%s%s", i, codes, text, hosts[0].err, hosts[1].err, hosts[2].err)
			}
		}
	})
}

// What makes no sense is said before anything is asked.
func TestOnceUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--key", "x", "--once"}, {"--key", "x", "--slot", "2026-12-02"}, {"--key", "x", "--once", "--slot", "tomorrow"},
		{"--id", "1", "--once", "--slot", "2026-12-02"}, {"--key", "x", "--once", "--slot", "2026-12-02", "-w", "1"}, {"--key", "x", "--once", "--slot", "2026-12-02", "-s"},
	} {
		c := command(t, testbed.Postgres(t), append(append([]string{"run"}, args...), "--", "true")...)
		if code := c.code(t); code != exUsage || strings.Count(c.err.String(), "\n") != 1 {
			t.Errorf("%q: %d, %s", args, code, c.err)
		}
	}
	for _, text := range []string{"2026-12-02", "2026-12-02T15:04", "2026-12-02 15:04:05", "2026-12-02T15:04:05+01:00"} {
		if at, err := parseSlot(text); err != nil || strconv.Itoa(at.Year()) != "2026" {
			t.Errorf("%s: %v, %v", text, at, err)
		}
	}
}
