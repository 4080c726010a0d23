package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// vectors.json has keys that Go and TypeScript agree on: it is frozen, as the keys are.
func TestKeyVectors(t *testing.T) {
	text, err := os.ReadFile("vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct{ Namespace, Name, Key string }
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) < 8 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		if got := strconv.FormatInt(sqllock.Namespace(v.Namespace).Name(v.Name).Int64(), 10); got != v.Key {
			t.Errorf("%q in %q: %s, want %s", v.Name, v.Namespace, got, v.Key)
		}
	}
}

// TypeScript's side of the vectors, by plain node: key.ts is JavaScript, too.
func TestKeyVectorsInNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node in PATH")
	}
	source, err := os.ReadFile("key.ts")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "--input-type=module")
	cmd.Stdin = strings.NewReader(string(source) + `
import { readFileSync } from "node:fs";
let n = 0;
for (const v of JSON.parse(readFileSync("vectors.json", "utf8"))) {
  if (String(lockKey(v.name, v.namespace)) !== v.key) throw new Error(JSON.stringify(v) + " got " + lockKey(v.name, v.namespace));
  n++;
}
console.log(n + " vectors agree");
`)
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`^\d+ vectors agree\n$`).Match(out) {
		t.Errorf("%v: %s", err, out)
	}
}

// The whole story needs what npm installs: without it, it is left out.
func TestStory(t *testing.T) {
	if _, err := os.Stat("dist/worker.js"); err != nil {
		t.Skip("the worker is not compiled: npm ci --ignore-scripts && npm run build")
	}
	s := testbed.Postgres(t).NewDatabase(t)
	var out bytes.Buffer
	if err := run(t.Context(), &out, s.DSN(), "."); err != nil {
		t.Fatalf("%v, after:\n%s", err, &out)
	}
	says := strings.Join([]string{
		`1\.`, "worker: holding", "Go: ran false, error <nil>", "worker: settled",
		`2\.`, "worker: skipped", "Go: ran true, error <nil>",
		`3\.`, "worker: holding", `Go: got the lock after 5\.\d s`, `worker, after 6\.\d s: failed: .*expired`,
		`4\.`, "worker: holding", `Go: got the lock after 6\.\d s`, `worker, after 6\.\d s: settled`,
	}, "(?s:.*)")
	if !regexp.MustCompile(says).Match(out.Bytes()) {
		t.Errorf("want %s\ngot %s", says, &out)
	}
	t.Logf("%s", &out)
	s.AwaitFree(t, 5*time.Second)
}
