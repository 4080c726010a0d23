package compat

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

const documentPath = "../docs/compatibility-orms.md"

// modules are the libraries' modules, whose versions the table names.
var modules = map[string]string{
	"GORM": "gorm.io/gorm", "sqlx": "github.com/jmoiron/sqlx", "bun": "github.com/uptrace/bun", "ent": "entgo.io/ent",
	"Atlas": "ariga.io/atlas", "goose": "github.com/pressly/goose/v3", "golang-migrate": "github.com/golang-migrate/migrate/v4",
}

// document is the table of what was found on each stage, in the order of leaks.
func document(found [][]string) string {
	var b strings.Builder
	b.WriteString("| library | the lock is left behind | pgx | lib/pq | MySQL | MariaDB |\n|---|---|---|---|---|---|\n")
	for i, l := range leaks {
		fmt.Fprintf(&b, "| %s | %s |", l.library+version(l.library), l.way)
		for _, outcomes := range found {
			cell := unknown
			if outcomes != nil {
				cell = outcomes[i]
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// version is what go.mod pins, shortened as people write it.
func version(library string) string {
	path, ok := modules[library]
	if !ok {
		return ""
	}
	text, err := os.ReadFile("go.mod")
	if err != nil {
		return " ?"
	}
	found := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(path) + ` v([0-9.]+)`).FindSubmatch(text)
	if found == nil {
		return " ?"
	}
	return " " + string(found[1])
}

// unknown is the cell of a server that is not there.
const unknown = "?"

// compareDocument: the document says what was found, and nothing else, of each server that is here.
func compareDocument(t *testing.T, table string) {
	t.Helper()
	text, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(regexp.QuoteMeta("\n\n"+table), regexp.QuoteMeta(" "+unknown+" |"), `[^|\n]*\|`)
	if !regexp.MustCompile(want + `\n`).Match(text) {
		t.Errorf("%s has another table than this: put it there, with the day and the servers' versions\n%s", documentPath, table)
	}
}
