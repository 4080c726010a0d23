package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// The program runs as people run it: its replicas are processes, which the race detector would make slow to start.
func TestCron(t *testing.T) {
	program := filepath.Join(t.TempDir(), "cron")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("embedded", func(t *testing.T) { check(t, exec.CommandContext(t.Context(), program)) })
	for name, start := range map[string]func(testing.TB) *testbed.Server{"PostgreSQL": testbed.Postgres, "MySQL": testbed.MySQL, "MariaDB": testbed.MariaDB} {
		t.Run(name, func(t *testing.T) {
			s := start(t).NewDatabase(t)
			check(t, exec.CommandContext(t.Context(), program, "-dsn", s.DSN()))
			s.AwaitFree(t, 5*time.Second)
		})
	}
}

// check runs the program, which has to say what follows, in this order.
func check(t *testing.T, program *exec.Cmd) {
	t.Helper()
	out, err := program.CombinedOutput()
	if err != nil {
		t.Fatalf("%v, after:\n%s", err, out)
	}
	says := strings.Join([]string{
		"PART 1", "e-mails about 2026-03-28: 3",
		"PART 2", "e-mails about 2026-03-29: 1",
		"PART 3", "settles 2026-03-30", `\| killed`, "e-mails about 2026-03-30: 0",
		"takes over 2026-03-30, attempt 2", "e-mails about 2026-03-30: 1", "e-mails about 2026-03-31: 1\n$",
	}, "(?s:.*)")
	if !regexp.MustCompile(says).Match(out) {
		t.Errorf("want %s\ngot %s", says, out)
	}
	_, after, _ := strings.Cut(string(out), "PART 2")
	part2, _, _ := strings.Cut(after, "PART 3")
	if strings.Count(part2, sent) != 1 || strings.Count(part2, "skipped") != 2 {
		t.Errorf("want one e-mail and two skipped:\n%s", part2)
	}
}
