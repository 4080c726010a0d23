// Command matrix runs the suite on one server and prints its row of the compatibility table: scripts/matrix.sh calls it.
//
//	matrix -alone FILE                      runs the tests without any server, and notes in FILE those that had to do with none
//	matrix -alone FILE -server NAME -kind K runs them on server kind K alone, and counts those that are not in FILE
//
// A test is counted by its innermost subtests. What fails, and what is skipped for what reason, goes to standard error.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// packages are what has to do with servers. The torture run and the fuzzing have lengths of their own.
var packages = []string{".", "./jobs", "./pgxlock", "./mysqllock", "./cmd/sqllock", "./sqllocktest"}

func main() {
	alone := flag.String("alone", "", "the file of tests that need no server")
	server := flag.String("server", "", "the row's name")
	kind := flag.String("kind", "", "PostgreSQL, MariaDB or MySQL")
	flag.Parse()
	if err := run(*alone, *server, *kind); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(alone, server, kind string) error {
	if server == "" {
		s, err := suite("none")
		if err != nil {
			return err
		}
		return os.WriteFile(alone, []byte(strings.Join(append(s.named("pass"), s.named("skip")...), "\n")), 0o644)
	}
	without, err := os.ReadFile(alone)
	if err != nil {
		return err
	}
	s, err := suite(kind)
	if err != nil {
		return err
	}
	for _, name := range strings.Split(string(without), "\n") {
		if r := s[name]; r != nil && r.how != "fail" {
			delete(s, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if s[name].how == "fail" { // parents too: a seed or a server's last words may be theirs
			fmt.Fprintf(os.Stderr, "FAIL %s\n%s", name, s[name].output)
		}
	}
	for _, name := range s.named("skip") {
		fmt.Fprintf(os.Stderr, "skip %s: %s\n", name, s[name].reason())
	}
	passed, failed, skipped := s.named("pass"), s.named("fail"), s.named("skip")
	fmt.Printf("| %s | %s | %d | %d | %d |\n", server, time.Now().UTC().Format(time.DateOnly), len(passed), len(failed), len(skipped))
	if len(failed) > 0 || len(passed) == 0 {
		return errors.New(server + " failed")
	}
	return nil
}

// results are tests by "package test".
type results map[string]*result

type result struct {
	how    string // "pass", "fail" or "skip"
	output string
	parent bool // its subtests count
}

// suite runs the tests with servers of one kind alone.
func suite(kind string) (results, error) {
	cmd := exec.Command("go", append([]string{"test", "-json", "-count=1", "-timeout=15m"}, packages...)...)
	cmd.Env = append(os.Environ(), "SQLLOCK_ONLY="+kind, "SQLLOCK_REQUIRE_SERVERS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s, err := read(out)
	var failed *exec.ExitError
	if ended := cmd.Wait(); ended != nil && !errors.As(ended, &failed) {
		return nil, ended
	}
	return s, err
}

// read takes in what `go test -json` prints. What never ends, in a package that does not, has failed.
func read(r io.Reader) (results, error) {
	s := results{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e struct{ Action, Package, Test, Output string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		if e.Package == "" {
			continue // a build's output
		}
		name := strings.TrimSpace(e.Package + " " + e.Test)
		one := s[name]
		if one == nil {
			one = &result{how: "fail"}
			s[name] = one
		}
		if e.Action == "output" {
			one.output += e.Output
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			one.how = e.Action
		}
		if i := strings.LastIndex(e.Test, "/"); i > 0 {
			if parent := s[e.Package+" "+e.Test[:i]]; parent != nil {
				parent.parent = true
			}
		}
	}
	return s, lines.Err()
}

// named returns the tests that ended in one way and are counted, sorted.
func (s results) named(how string) (names []string) {
	for name, r := range s {
		isPackage := !strings.Contains(name, " ")
		if r.how != how || strings.Contains(r.output, "this run is about") || (r.parent || isPackage) && (how != "fail" || s.failsBelow(name)) {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// failsBelow tells whether the reason why a package or test failed is a test below it.
func (s results) failsBelow(name string) bool {
	below := name + "/"
	if !strings.Contains(name, " ") {
		below = name + " "
	}
	for other, r := range s {
		if r.how == "fail" && strings.HasPrefix(other, below) {
			return true
		}
	}
	return false
}

// reason is what a skipped test says.
func (r *result) reason() string {
	for line := range strings.Lines(r.output) {
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			_, text, _ = strings.Cut(text, ": ")
			return strings.TrimSpace(text)
		}
	}
	return "(no reason)"
}
