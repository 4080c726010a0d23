package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sqllock/sqllock/internal/testbed"
)

// TestMain is also the processes.
func TestMain(m *testing.M) {
	if text := os.Getenv(partEnv); text != "" {
		if err := work(text, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return
	}
	testbed.Main(m)
}

// A small race: each job runs once, whatever it costs.
func TestSmall(t *testing.T) {
	testbed.Postgres(t) // or skip
	var out bytes.Buffer
	if err := run(&out, 60); err != nil || !strings.Contains(out.String(), ours) {
		t.Errorf("%v\n%s", err, &out)
	}
	t.Logf("%s", &out)
}
