package main

import (
	"slices"
	"strings"
	"testing"
)

const log = `{"Action":"run","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"A/pgx"}
{"Action":"run","Package":"p","Test":"A/MySQL"}
{"Action":"output","Package":"p","Test":"A/MySQL","Output":"    a_test.go:3: no MySQL: this run is about PostgreSQL alone\n"}
{"Action":"skip","Package":"p","Test":"A/MySQL"}
{"Action":"pass","Package":"p","Test":"A/pgx"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"B"}
{"Action":"output","Package":"p","Test":"B","Output":"    b_test.go:5: since version 14: no\n"}
{"Action":"skip","Package":"p","Test":"B"}
{"Action":"run","Package":"p","Test":"C"}
{"Action":"run","Package":"p","Test":"C/x"}
{"Action":"fail","Package":"p","Test":"C/x"}
{"Action":"fail","Package":"p","Test":"C"}
{"Action":"run","Package":"p","Test":"Hangs"}
{"Action":"fail","Package":"p"}
{"Action":"fail","Package":"does-not-build"}
`

func TestRead(t *testing.T) {
	s, err := read(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	for how, want := range map[string][]string{
		"pass": {"p A/pgx"},
		"skip": {"p B"},
		"fail": {"does-not-build", "p C/x", "p Hangs"},
	} {
		if got := s.named(how); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", how, got, want)
		}
	}
	if got := s["p B"].reason(); got != "since version 14: no" {
		t.Errorf("reason: %q", got)
	}
}
