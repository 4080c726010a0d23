//go:build linux || darwin || freebsd

package testbed

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childEnv says what a re-executed test binary does after it has started servers.
const childEnv = "SQLLOCK_TESTBED_CHILD"

// TestChild is no test but the process that TestOrphans ends.
func TestChild(t *testing.T) {
	how := os.Getenv(childEnv)
	if how == "" {
		t.Skip("started by TestOrphans only")
	}
	stopped := StartPostgres(t)
	session(t, stopped)
	stopped.Signal(t, syscall.SIGSTOP) // a server that hears nothing must go too
	servers := []*Server{stopped}
	if how == "kill -9" {
		servers = append(servers, Postgres(t), MariaDB(t), MySQL(t), PgBouncer(t, "session"))
	}
	fmt.Print("\nstarted ", stopped.program.dog.folder)
	for _, s := range servers {
		for _, pid := range append(s.program.children(), s.program.pid) {
			fmt.Print(" ", pid)
		}
	}
	fmt.Println()
	switch how {
	case "os.Exit":
		os.Exit(0)
	case "panic":
		panic("as it was told to")
	default:
		io.Copy(io.Discard, os.Stdin) // until it is killed
	}
}

// However a test process ends, its servers and their folder go with it.
func TestOrphans(t *testing.T) {
	for _, e := range []*engine{postgres, mariadb, mysqld, pgbouncers["session"]} {
		shared(t, e) // or skip
	}
	for _, how := range []string{"kill -9", "os.Exit", "panic"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			folder, pids := runChild(t, how)
			awaitNone(t, "the folder", func() bool { _, err := os.Stat(folder); return err == nil })
			for _, pid := range pids {
				awaitNone(t, fmt.Sprint("process ", pid), func() bool { return alive(pid) })
			}
		})
	}
}

// runChild runs TestChild to its end and returns what it started.
func runChild(t *testing.T, how string) (folder string, pids []int) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
	child.Env = append(os.Environ(), childEnv+"="+how)
	stdin, _ := child.StdinPipe()
	defer stdin.Close()
	stdout, _ := child.StdoutPipe()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	var said strings.Builder
	for lines := bufio.NewScanner(io.TeeReader(stdout, &said)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || fields[0] != "started" {
			continue
		}
		for _, field := range fields[2:] {
			pid, _ := strconv.Atoi(field)
			pids = append(pids, pid)
		}
		if how == "kill -9" {
			child.Process.Kill()
		}
		return fields[1], pids
	}
	t.Fatalf("the child started nothing:\n%s", &said)
	return "", nil
}

func awaitNone(t *testing.T, what string, exists func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); exists(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s outlives the test process", what)
		}
	}
}

func alive(pid int) bool {
	for _, state := range threads(pid) {
		if !strings.Contains(dead, state) {
			return true
		}
	}
	return false
}
