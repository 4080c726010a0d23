package sqllock_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// SECURITY.md has a reason for each module that ours need, and for no other.
func TestDependenciesHaveReasons(t *testing.T) {
	text, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Dependencies\n")
	var said []string
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \| (.+) \|$`).FindAllStringSubmatch(section, -1) {
		if strings.TrimSpace(row[2]) == "" {
			t.Errorf("no reason for %s", row[1])
		}
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			said = append(said, name[1])
		}
	}
	needed := append(direct(t, "go.mod"), direct(t, "jobs/schedulers/go.mod")...)
	slices.Sort(said)
	slices.Sort(needed)
	if needed = slices.Compact(needed); !slices.Equal(said, needed) {
		t.Errorf("SECURITY.md has\n%q, the modules need\n%q", said, needed)
	}
}

// direct returns the modules that a go.mod requires directly, as SECURITY.md writes them.
func direct(t *testing.T, path string) (modules []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`/v\d+$`)
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\t?([a-z][^\s]*\.[^\s]+) v[^\s]+(.*)$`).FindAllStringSubmatch(string(text), -1) {
		name := strings.TrimPrefix(version.ReplaceAllString(m[1], ""), "github.com/")
		if !strings.Contains(m[2], "indirect") && name != "sqllock/sqllock" {
			modules = append(modules, name)
		}
	}
	return modules
}

// What reaches a program that imports a package, beyond the standard library.
func TestImports(t *testing.T) {
	for pkg, want := range map[string][]string{
		".":           {"github.com/ngrok/sqlmw"},
		"./jobs":      {"github.com/ngrok/sqlmw"},
		"./mysqllock": {"filippo.io/edwards25519", "github.com/go-sql-driver/mysql", "github.com/ngrok/sqlmw"},
	} {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		got := strings.Fields(string(out))
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s brings %q, want %q", pkg, got, want)
		}
	}
}
