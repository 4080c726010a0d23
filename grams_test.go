package sqllock

import (
	"strings"
	"testing"
)

// A lock function's name must be found wherever it stands, in whatever case, with anything around it.
func TestGramsFindEveryNameEverywhere(t *testing.T) {
	for _, c := range []struct {
		names    []string
		mentions func(string) bool
	}{
		{[]string{
			"pg_advisory_lock", "pg_advisory_lock_shared", "pg_try_advisory_lock", "pg_try_advisory_lock_shared",
			"pg_advisory_unlock", "pg_advisory_unlock_shared", "pg_advisory_unlock_all", "pg_advisory_xact_lock",
			"pg_advisory_xact_lock_shared", "pg_try_advisory_xact_lock", "pg_try_advisory_xact_lock_shared",
		}, mentionsPostgres},
		{[]string{"get_lock", "release_lock", "release_all_locks"}, mentionsMySQL},
	} {
		for _, name := range c.names {
			for before := range 120 {
				for _, after := range []int{0, 1, 2, 3, 40, 120} {
					for _, n := range []string{name, strings.ToUpper(name), strings.ToUpper(name[:3]) + name[3:]} {
						for _, fill := range []string{" ", "_", "k", "y_"} {
							text := strings.Repeat(fill, before)[:before] + " " + n + "(" + strings.Repeat(fill, after)
							if !c.mentions(text) {
								t.Fatalf("not found in %q", text)
							}
						}
					}
				}
			}
		}
	}
}

// No gram may have taken another's place in its table.
func TestGramsDoNotMeet(t *testing.T) {
	for _, c := range []struct {
		table   *gramTable
		n, part int
		words   []string
	}{
		{postgresGrams, postgresStride, 3, []string{"pg_advisory_lo", "ry_advisory_un", "ry_advisory_xa"}},
		{mysqlGrams, mysqlStride, 4, []string{"get_lock", "ase_lock", "all_lock"}},
	} {
		for _, w := range c.words {
			for i := range c.n {
				if got, want := int(c.table[gramOf(load4(w[i:]))]), c.part-i+ahead; got != want {
					t.Errorf("%q at %d of %q: %d, want %d", w[i:i+4], i, w, got, want)
				}
			}
		}
	}
}
