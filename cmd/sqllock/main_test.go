package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sqllock/sqllock/internal/testbed"
)

// The tests run the program itself, as cron would: built once, with no terminal.
func TestMain(m *testing.M) {
	testbed.Main(m, func() {
		if buildDir != "" {
			os.RemoveAll(buildDir)
		}
	})
}

var buildDir string

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sqllock-test-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	bin := filepath.Join(dir, "sqllock")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bin, nil
})

func binary(t testing.TB) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// onEach runs f on each kind of server, on a database of its own.
func onEach(t *testing.T, f func(t *testing.T, s *testbed.Server)) {
	t.Helper()
	for name, server := range map[string]func(testing.TB) *testbed.Server{"PostgreSQL": testbed.Postgres, "MySQL": testbed.MySQL, "MariaDB": testbed.MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t).NewDatabase(t)
			f(t, s)
			s.AwaitFree(t, 3*time.Second)
		})
	}
}

// A call is one run of the program.
type call struct {
	*exec.Cmd
	out, err *bytes.Buffer
}

// command makes a call whose database is s and which sees nothing else of our environment that could matter.
func command(t testing.TB, s *testbed.Server, args ...string) *call {
	t.Helper()
	c := &call{Cmd: exec.Command(binary(t), args...), out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	c.Stdout, c.Stderr = c.out, c.err
	c.Env = cleanEnv()
	if s != nil {
		c.Env = append(c.Env, "SQLLOCK_DSN="+s.DSN())
	}
	c.WaitDelay = 10 * time.Second
	return c
}

func cleanEnv() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "SQLLOCK_") && !strings.HasPrefix(v, "DATABASE_URL=") {
			env = append(env, v)
		}
	}
	return env
}

// code runs the call and returns its exit code.
func (c *call) code(t testing.TB) int {
	t.Helper()
	return exitCode(t, c.Run())
}

func exitCode(t testing.TB, err error) int {
	t.Helper()
	var e *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.ExitCode()
	}
	t.Fatal(err)
	return -1
}

func (c *call) start(t testing.TB) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
	})
}

// await polls a condition.
func await(t testing.TB, within time.Duration, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", within, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// keyOf is a key of t's own: MySQL's names are per server.
func keyOf(t testing.TB) string {
	return strings.ToLower(strings.NewReplacer("/", ".", "#", ".").Replace(t.Name()))
}

// awaitFile waits until a command has written a line, and returns it.
func awaitFile(t testing.TB, path string) (text string) {
	t.Helper()
	await(t, 10*time.Second, func() error {
		b, err := os.ReadFile(path)
		if err != nil || !bytes.HasSuffix(b, []byte("\n")) {
			return fmt.Errorf("%s: %q, %v", path, b, err)
		}
		text = strings.TrimSpace(string(b))
		return nil
	})
	return text
}

// holding starts a run that holds the key until the test ends it by closing its standard input.
func holding(t testing.TB, s *testbed.Server, key string, args ...string) (end func()) {
	t.Helper()
	started := filepath.Join(t.TempDir(), "started")
	c := command(t, s, append(append([]string{"run", "--key", key}, args...), "--", "sh", "-c", "echo >"+started+"; exec cat")...)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.start(t)
	awaitFile(t, started)
	return sync.OnceFunc(func() {
		in.Close()
		if code := exitCode(t, c.Wait()); code != 0 {
			t.Errorf("the holder exits with %d: %s", code, c.err)
		}
	})
}
