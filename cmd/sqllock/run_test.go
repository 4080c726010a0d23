package main

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

// run exits as util-linux's flock does, in every case that both have.
func TestExitCodesAreFlocks(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("no flock(1) to compare with")
	}
	onEach(t, func(t *testing.T, s *testbed.Server) {
		file := filepath.Join(t.TempDir(), "lock")
		plain := filepath.Join(t.TempDir(), "plain")
		if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		type both struct{ flags, command string }
		free := []both{
			{"", "true"}, {"", "false"}, {"", "sh -c 'exit 7'"}, {"", "sh -c 'exit 255'"}, {"", "sh -c 'kill -TERM $$'"}, {"", "sh -c 'kill -KILL $$'"},
			{"-n", "sh -c 'exit 3'"}, {"-w 5", "sh -c 'exit 4'"}, {"-w 0", "sh -c 'exit 5'"}, {"-x", "sh -c 'exit 6'"}, {"--nb", "sh -c 'exit 8'"}, {"--timeout 2", "sh -c 'exit 9'"},
			{"", "-c 'exit 11'"}, {"", "-c 'exit 12 # with words'"},
			{"", "/no/such/program"}, {"", "no-such-program"}, {"", plain}, {"", "/"},
			{"-E 256", "true"}, {"-E -1", "true"}, {"-E x", "true"}, {"-w x", "true"}, {"--no-such-flag", "true"}, {"-n -E 5", "sh -c 'exit 0'"},
		}
		busy := []both{
			{"-n", "true"}, {"--nonblock", "true"}, {"-n -E 9", "true"}, {"-n -E 0", "true"}, {"-n -E 255", "false"}, {"-w 0", "true"}, {"-w 0.1", "true"}, {"-w 0.1 -E 7", "true"},
			{"-n", "no-such-program"}, {"-n --conflict-exit-code 4", "true"},
		}
		key := keyOf(t)
		compare := func(state string, cases []both) {
			t.Helper()
			for _, c := range cases {
				want := shell(t, "flock "+c.flags+" "+file+" "+c.command, s)
				got := shell(t, binary(t)+" run -q --key "+key+" "+c.flags+" "+strings.TrimSuffix("-- ", ifC(c.command))+c.command, s)
				if got != want {
					t.Errorf("%s: [%s] %s: sqllock exits with %d, flock with %d", state, c.flags, c.command, got, want)
				}
			}
		}
		compare("free", free)
		end := holding(t, s, key)
		held := exec.Command("flock", file, "cat")
		in, err := held.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := held.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, 5*time.Second, func() error {
			if exec.Command("flock", "-n", file, "true").Run() == nil {
				return fmt.Errorf("flock is not there yet")
			}
			return nil
		})
		compare("held", busy)
		in.Close()
		held.Wait()
		end()
	})
}

// ifC: -c is a flag, before which -- must not stand.
func ifC(command string) string {
	if strings.HasPrefix(command, "-c ") {
		return "-- "
	}
	return ""
}

// shell returns the exit code of a command line.
func shell(t testing.TB, line string, s *testbed.Server) int {
	t.Helper()
	c := exec.Command("sh", "-c", line)
	c.Env = append(cleanEnv(), "SQLLOCK_DSN="+s.DSN())
	return exitCode(t, c.Run())
}

// Shared locks go together and exclude exclusive ones, as flock's.
func TestRunShared(t *testing.T) {
	s := testbed.Postgres(t).NewDatabase(t)
	end := holding(t, s, "report", "--shared")
	if code := command(t, s, "run", "--key", "report", "-s", "-n", "--", "true").code(t); code != 0 {
		t.Errorf("beside another shared one: %d", code)
	}
	if code := command(t, s, "run", "--key", "report", "-n", "--", "true").code(t); code != 1 {
		t.Errorf("exclusive beside a shared one: %d", code)
	}
	end()
	c := command(t, testbed.MySQL(t), "run", "--key", "report", "-s", "--", "true")
	if code := c.code(t); code != exUsage || !strings.Contains(c.err.String(), "exclusive") {
		t.Errorf("on MySQL: %d, %s", code, c.err)
	}
	s.AwaitFree(t, time.Second)
}

// One line on standard error says who holds the key; the command's output is its own.
func TestRunSaysWhoHolds(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		key := keyOf(t)
		end := holding(t, s, key)
		for _, flags := range [][]string{{"-n"}, {"-w", "50ms"}} {
			c := command(t, s, append(append([]string{"run", "--key", key}, flags...), "--", "echo", "not this")...)
			code := c.code(t)
			want := "sqllock: " + key + " is held by "
			if code != 1 || c.out.Len() != 0 || !strings.HasPrefix(c.err.String(), want) || strings.Count(c.err.String(), "\n") != 1 || !strings.Contains(c.err.String(), "127.0.0.1") {
				t.Errorf("%q: %d, %q, %q", flags, code, c.out, c.err)
			}
		}
		end()
		c := command(t, s, "run", "--key", key, "-n", "--", "sh", "-c", "echo out; echo err >&2; echo $SQLLOCK_KEY")
		if code := c.code(t); code != 0 || c.out.String() != "out\n"+key+"\n" || c.err.String() != "err\n" {
			t.Errorf("%d, %q, %q", code, c.out, c.err)
		}
	})
}

// Every later holder has a greater token.
func TestRunToken(t *testing.T) {
	s := testbed.Postgres(t).NewDatabase(t)
	var last int64
	for range 3 {
		c := command(t, s, "run", "--key", "k", "--token", "--", "sh", "-c", "echo $SQLLOCK_TOKEN")
		if code := c.code(t); code != 0 {
			t.Fatalf("%d, %s", code, c.err)
		}
		token, err := strconv.ParseInt(strings.TrimSpace(c.out.String()), 10, 64)
		if err != nil || token <= last {
			t.Errorf("token %q after %d: %v", c.out, last, err)
		}
		last = token
	}
	c := command(t, testbed.MySQL(t), "run", "--key", "k", "--token", "--", "true")
	if code := c.code(t); code != exConfig || !strings.Contains(c.err.String(), "WithToken") {
		t.Errorf("on MySQL: %d, %s", code, c.err)
	}
	s.AwaitFree(t, time.Second)
}

// A signal goes to the whole group, and the lock is held until the command has ended in its own way.
func TestRunForwardsSignals(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1} {
			if signal.Ignored(sig) {
				continue // as under nohup: then a shell cannot trap it either
			}
			key, dir := keyOf(t), t.TempDir()
			started, got := filepath.Join(dir, "started"), filepath.Join(dir, "got")
			name := map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP", syscall.SIGUSR1: "USR1"}[sig]
			script := fmt.Sprintf("trap 'echo %s >%s; read x; exit 5' %s; echo >%s; while :; do sleep 0.05; done", name, got, name, started)
			c := command(t, s, "run", "--key", key, "--", "sh", "-c", script)
			in, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			c.start(t)
			awaitFile(t, started)
			c.Process.Signal(sig)
			awaitFile(t, got)
			if code := command(t, s, "run", "-q", "--key", key, "-n", "--", "true").code(t); code != 1 {
				t.Errorf("%v: while the command cleans up the key is free: %d", sig, code)
			}
			in.Write([]byte("\n"))
			if code := exitCode(t, c.Wait()); code != 5 {
				t.Errorf("%v: exits with %d, %s", sig, code, c.err)
			}
		}
	})
}

// A signal before there is a command ends the wait for the lock.
func TestRunSignalWhileWaiting(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		key := keyOf(t)
		end := holding(t, s, key)
		c := command(t, s, "run", "--verbose", "--key", key, "--", "echo", "not this")
		said, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		c.Stderr = said
		c.start(t)
		awaitFile(t, said.Name()) // it says who it waits for
		c.Process.Signal(syscall.SIGTERM)
		if code := exitCode(t, c.Wait()); code != 128+15 || c.out.Len() != 0 {
			t.Errorf("%d, %q", code, c.out)
		}
		end()
	})
}

// awaitGroup returns the process group of the process whose id a command has written.
func awaitGroup(t testing.TB, path string) int {
	t.Helper()
	pid, err := strconv.Atoi(awaitFile(t, path))
	if err != nil {
		t.Fatal(err)
	}
	group, err := syscall.Getpgid(pid)
	if err != nil {
		t.Fatal(err)
	}
	return group
}

// alive says whether any process of the group lives: one that has died and that nobody has waited for does not.
func alive(group int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, _ := os.ReadFile(stat)
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 2 && f[2] == strconv.Itoa(group) && f[0] != "Z" && f[0] != "X" {
			return true
		}
	}
	return false
}

// A sqllock that is killed takes the command and what that has started with it: they would work without the lock.
func TestRunKilled(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		for _, script := range []string{"sleep 60 & echo $$ >%s; wait", "trap '' TERM; echo $$ >%s; while :; do sleep 0.05; done"} {
			key, pids := keyOf(t), filepath.Join(t.TempDir(), "pid")
			c := command(t, s, "run", "--grace", "300ms", "--key", key, "--", "sh", "-c", fmt.Sprintf(script, pids))
			c.start(t)
			group := awaitGroup(t, pids)
			c.Process.Kill()
			c.Wait()
			s.AwaitFree(t, 2*time.Second)
			await(t, 10*time.Second, func() error {
				if alive(group) {
					return fmt.Errorf("the command's group %d lives", group)
				}
				return nil
			})
		}
	})
}

// endHolder ends the session that holds the key, as a server that restarts would.
func endHolder(t testing.TB, s *testbed.Server, key string) {
	t.Helper()
	if c := command(t, s, "break", "--yes", "--key", key); c.code(t) != 0 {
		t.Fatalf("break: %s%s", c.out, c.err)
	}
}

// When the lock is lost the command is asked to end, and then made to, with what it has started.
func TestRunLosesTheLock(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		for name, c := range map[string]struct {
			script string
			within time.Duration
		}{
			"obedient": {"trap 'exit 0' TERM; sleep 60 & echo $$ >%s; wait", 2 * time.Second},
			"stubborn": {"trap '' TERM; echo $$ >%s; while :; do sleep 0.05; done", 3 * time.Second},
			"left":     {"sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' & echo $$ >%s; wait", 3 * time.Second},
		} {
			key, pids := keyOf(t), filepath.Join(t.TempDir(), "pid")
			run := command(t, s, "run", "--grace", "500ms", "--key", key, "--", "sh", "-c", fmt.Sprintf(c.script, pids))
			run.start(t)
			group := awaitGroup(t, pids)
			lost := time.Now()
			endHolder(t, s, key)
			code := exitCode(t, run.Wait())
			if code != exTempFail || strings.Count(run.err.String(), "\n") != 1 || !strings.Contains(run.err.String(), "the lock is lost") {
				t.Errorf("%s: exits with %d, %q", name, code, run.err)
			}
			await(t, time.Until(lost.Add(c.within)), func() error {
				if alive(group) {
					return fmt.Errorf("%s: the command's group %d lives", name, group)
				}
				return nil
			})
		}
	})
}

// When the network goes silent, the command ends before the server lets another one in.
func TestRunNetworkCut(t *testing.T) {
	onEach(t, func(t *testing.T, s *testbed.Server) {
		if s.Kind == testbed.KindPostgres && s.Before(14) {
			t.Skip("PostgreSQL has idle_session_timeout since version 14: a proxy's kernel answers the TCP keepalives that bound the silence before")
		}
		const silence = 4 * time.Second // so that a loss is known after at most 2.5 s
		proxy := testbed.NewProxy(t, s.Addr())
		key, pids := keyOf(t), filepath.Join(t.TempDir(), "pid")
		c := command(t, s.Via(proxy), "run", "--silence", silence.String(), "--key", key, "--", "sh", "-c", "trap '' TERM; echo $$ >"+pids+"; while :; do sleep 0.05; done")
		c.start(t)
		group := awaitGroup(t, pids)
		cut := time.Now()
		proxy.Blackhole(true)
		// Another host waits for the key, on a network that works.
		next := command(t, s, "run", "-w", "10s", "--key", key, "--", "true")
		next.start(t)
		code := exitCode(t, c.Wait())
		gone := time.Since(cut)
		if code != exTempFail || alive(group) || gone > 3500*time.Millisecond {
			t.Errorf("exits with %d after %v, alive %v: %s", code, gone, alive(group), c.err)
		}
		if code := exitCode(t, next.Wait()); code != 0 {
			t.Errorf("the next: %d, %s", code, next.err)
		}
		free := time.Since(cut)
		if free < gone {
			t.Errorf("the next one had the lock after %v, before the command was gone after %v", free, gone)
		}
		t.Logf("command gone after %v, next holder after %v", gone, free)
		proxy.Blackhole(false)
	})
}

// Two hosts' crons start at the same time: one runs the job, the other says who does.
func TestCronsRace(t *testing.T) {
	rounds := 10
	if os.Getenv("SQLLOCK_TEST_LONG") != "" {
		rounds = 200
	}
	onEach(t, func(t *testing.T, s *testbed.Server) {
		key, dir := keyOf(t), t.TempDir()
		for i := range rounds {
			ran := filepath.Join(dir, strconv.Itoa(i))
			type host struct {
				*call
				code int
			}
			done := make(chan *host, 2)
			var end []func() error
			for range 2 {
				h := &host{call: command(t, s, "run", "-n", "--key", key, "--", "sh", "-c", "echo ran >>"+ran+"; exec cat")}
				in, err := h.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				end = append(end, in.Close)
				h.start(t)
				go func() {
					h.Wait()
					h.code = h.ProcessState.ExitCode()
					done <- h
				}()
			}
			loser := <-done // the winner's job lasts until then
			for _, e := range end {
				e()
			}
			winner := <-done
			text, _ := os.ReadFile(ran)
			if loser.code != 1 || winner.code != 0 || string(text) != "ran\n" || !strings.Contains(loser.err.String(), " is held by ") {
				t.Fatalf("round %d: exit codes %d and %d, ran %q\n%s%s", i, loser.code, winner.code, text, loser.err, winner.err)
			}
		}
	})
}

// What is wrong is said in one line, without a stack, without the password, and with a code of sysexits.
func TestBadInput(t *testing.T) {
	const secret = "s3cr3t-p4ss"
	pg, my := testbed.Postgres(t), testbed.MySQL(t)
	at := func(format string, addr string) string { return fmt.Sprintf(format, secret, addr) }
	refused := unusedAddr(t)
	type input struct {
		dsn  string
		args []string
		code int
		says string
	}
	ok := []string{"--key", "x", "--", "true"}
	for name, c := range map[string]input{
		"no database":             {"", ok, exUsage, "SQLLOCK_DSN"},
		"unknown host":            {"postgres://test:" + secret + "@no-such-host.invalid/x", ok, exNoHost, "no-such-host.invalid"},
		"unknown host, MySQL":     {"mysql://test:" + secret + "@no-such-host.invalid/x", ok, exNoHost, "no-such-host.invalid"},
		"refused":                 {at("postgres://test:%s@%s/x?sslmode=disable", refused), ok, exUnavailable, "refused"},
		"refused, MySQL":          {at("mysql://test:%s@%s/x", refused), ok, exUnavailable, "refused"},
		"wrong password, MySQL":   {at("mysql://test:%s@%s/test", my.Addr()), ok, exNoPerm, "Access denied"},
		"wrong password, own":     {at("test:%s@tcp(%s)/test", my.Addr()), ok, exNoPerm, "Access denied"},
		"unknown role":            {at("postgres://nobody:%s@%s/postgres?sslmode=disable", pg.Addr()), ok, exNoPerm, "nobody"},
		"unknown database":        {at("postgres://test:%s@%s/nothing?sslmode=disable", pg.Addr()), ok, exConfig, "nothing"},
		"unknown database, MySQL": {"mysql://test:test@" + my.Addr() + "/nothing", ok, exConfig, "nothing"},
		"broken URL":              {"postgres://test:" + secret + "/@%zz:port/x", ok, exUsage, "cannot be read"},
		"broken URL, MySQL":       {"mysql://test:" + secret + "/@%zz:port/x", ok, exUsage, "cannot be read"},
		"broken own form":         {"test:" + secret + "@tcp(/x", ok, exUsage, "cannot be read"},
		"unknown scheme":          {"redis://:" + secret + "@host/0", ok, exUsage, "redis"},
		"no words":                {secret, ok, exUsage, "cannot be read"},
		"no key":                  {pg.DSN(), []string{"--", "true"}, exUsage, "--key"},
		"two keys":                {pg.DSN(), []string{"--key", "a", "--id", "1", "--", "true"}, exUsage, "one of"},
		"bad id":                  {pg.DSN(), []string{"--id", "9223372036854775808", "--", "true"}, exUsage, "2^63"},
		"bad pair":                {pg.DSN(), []string{"--pair", "1", "--", "true"}, exUsage, "1,2"},
		"bad name":                {pg.DSN(), []string{"--key", "a\xff", "--", "true"}, exUsage, "not text"},
		"no command":              {pg.DSN(), []string{"--key", "x"}, exUsage, "COMMAND"},
		"missing command":         {pg.DSN(), []string{"--key", "x", "--", "/no/such"}, exUnavailable, "/no/such"},
		"grace too long":          {pg.DSN(), []string{"--key", "x", "--grace", "50s", "--", "true"}, exUsage, "--silence"},
		"short silence":           {pg.DSN(), []string{"--key", "x", "--silence", "10ms", "--", "true"}, exUnavailable, "WithSilenceBound"},
	} {
		t.Run(name, func(t *testing.T) {
			call := command(t, nil, append([]string{"run"}, c.args...)...)
			if c.dsn != "" {
				call.Env = append(call.Env, "DATABASE_URL="+c.dsn)
			}
			began := time.Now()
			code, said := call.code(t), call.err.String()
			if code != c.code || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "sqllock: ") || !strings.Contains(said, c.says) {
				t.Errorf("exits with %d, want %d, and says %q, want %q", code, c.code, said, c.says)
			}
			if strings.Contains(said+call.out.String(), secret) || strings.Contains(said, "goroutine") {
				t.Errorf("says what it must not: %s", said)
			}
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	pg.AwaitFree(t, time.Second)
}

// No driver shows a password today. If one did, it would not be printed.
func TestSecrets(t *testing.T) {
	if got := line(fmt.Errorf("sqllock: cannot connect\n\tto u:%s@h", "s3cr3t"), "", "s3cr3t"); got != "sqllock: cannot connect to u:xxxxx@h" {
		t.Errorf("%q", got)
	}
	if got := badDSN(fmt.Errorf("invalid port %q", "s3cr3t")); strings.Contains(got.Error(), "s3cr3t") {
		t.Errorf("%v", got)
	}
}

// unusedAddr is where nobody listens.
func unusedAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// The grace always fits before the server lets another one in.
func TestGraceFits(t *testing.T) {
	for silence, want := range map[time.Duration]time.Duration{time.Minute: 10 * time.Second, 4 * time.Second: 750 * time.Millisecond, time.Second: 187500 * time.Microsecond} {
		f := runFlags{silence: silence}
		if err := f.fitGrace(); err != nil || f.grace != want {
			t.Errorf("silence %v: grace %v, %v", silence, f.grace, err)
		}
	}
	for _, silence := range []time.Duration{time.Second, 3 * time.Second, 20 * time.Second, time.Minute, 10 * time.Minute} {
		f := runFlags{silence: silence}
		if err := f.fitGrace(); err != nil {
			t.Error(err)
		}
		l, _ := f.locker(sql.OpenDB(nil), sqllock.DialectPostgres)
		if bound := l.(*sqllock.Postgres).LossBound(); bound+f.grace > silence {
			t.Errorf("silence %v: told after %v, and a grace of %v", silence, bound, f.grace)
		}
	}
	f := runFlags{silence: sqllock.DefaultSilenceBound, grace: 41 * time.Second}
	if err := f.fitGrace(); err == nil {
		t.Error("a grace that outlasts the lock passed")
	}
}

// nohup's ignored signals stay ignored.
func TestForwarded(t *testing.T) {
	if !slices.Contains(forwarded(), os.Signal(syscall.SIGTERM)) {
		t.Error("TERM is not forwarded")
	}
}
