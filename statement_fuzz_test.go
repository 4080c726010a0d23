package sqllock

import (
	"strings"
	"testing"
)

// fuzzSeeds are texts in which something of the lexical rules is met.
var fuzzSeeds = []string{
	"", "SELECT 1", "SELECT pg_advisory_lock(1)", "SELECT GET_LOCK('a',1)", "/* /* */ */ SELECT 1", `SELECT U&"pg\005Fadvisory_lock"(1)`, `SELECT U&"a!0062" UESCAPE '!'`,
	"SELECT E'a'\n'\\'', pg_advisory_lock(1)", "SELECT $a$ $b$ $a$, pg_try_advisory_lock(1), $b$ $b$", "DO $$ BEGIN EXECUTE 'x'; END $$", "BEGIN; COMMIT AND CHAIN", "PREPARE p AS SELECT pg_advisory_lock($1)",
	"DECLARE c CURSOR FOR SELECT pg_advisory_lock(1)", "SELECT (1).pg_advisory_lock", `SELECT 'a\', pg_advisory_lock(1)`, "/*!999999 SELECT GET_LOCK('ex9',1) */ SELECT 1", "/*M!100100 x */ /*!80000 y */ LOCK TABLES t READ",
	`SELECT 'it\'s GET_LOCK(', GET_LOCK('bs',1)`, "PREPARE p FROM 'SELECT GET_LOCK(''pp'',1)'", "EXECUTE IMMEDIATE @x", "SET STATEMENT a=1 FOR DO GET_LOCK('a',1)", "BEGIN NOT ATOMIC DO GET_LOCK('x',1); END",
	"CREATE PROCEDURE p() BEGIN IF 1 THEN SELECT 1; END IF; END; BEGIN", "FLUSH TABLES a, b WITH READ LOCK", "HANDLER a.b OPEN AS c", "XA START 'x'", "SELECT \xa0GET_LOCK\xa0(1,1)", "SELECT '\xbf\\', GET_LOCK('x',1)", "lock-it", "SELECT 1 -- \x00",
}

func FuzzRecognise(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s, false)
		f.Add(s, true)
	}
	fns := lockFunctions{"lock_job"}
	f.Fuzz(func(t *testing.T, text string, mysql bool) {
		d := DialectPostgres
		if mysql {
			d = DialectMySQL
		}
		s := recognise(d, text, fns)
		if again := recognise(d, text, fns); again != s {
			t.Errorf("%q: first %+v, then %+v", text, s, again)
		}
		if s.verb != verbNone && (s.may|s.frees|s.marks != 0 || s.txLock || s.opens || s.ends) {
			t.Errorf("%q: a verb and more: %+v", text, s)
		}
		if strings.ContainsAny(text, "\x00") || unterminated(d, text) {
			return
		}
		for _, tail := range []string{"\n", "\n/* c */", "\n-- c", "\n \t-- c\n"} {
			if longer := recognise(d, text+tail, fns); longer != s {
				t.Errorf("%q: %+v, with %q behind it: %+v", text, s, tail, longer)
			}
		}
	})
}

// unterminated reports whether text ends within a string, a name or a comment in some reading.
func unterminated(d Dialect, text string) bool {
	for _, r := range quoteReadings {
		for r.charset = charsetUTF8; r.charset <= charsetDouble; r.charset++ {
			for _, r.skipVersioned = range []bool{false, true} {
				l := lexer{dialect: d, reading: r, text: text}
				var t token
				for l.next(&t); t.kind != tokenEnd; l.next(&t) {
				}
				if l.broken {
					return true
				}
			}
		}
	}
	return false
}

// What is ordinary is nothing to recognise.
func FuzzOrdinary(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s, false)
		f.Add(s, true)
	}
	for _, s := range ordinaryTexts {
		f.Add("SELECT "+strings.Repeat(s.text, 10), false)
		f.Add("SELECT "+strings.Repeat(s.text, 10), true)
	}
	f.Fuzz(func(t *testing.T, text string, mysql bool) {
		d := DialectPostgres
		if mysql {
			d = DialectMySQL
		}
		if s := recognise(d, text, nil); ordinary(d, text) && !s.harmlessUnmarked() {
			t.Errorf("%v: %q is taken for ordinary, but %+v", d, text, s)
		}
	})
}

func sized(s string, n int) string { return strings.Repeat(s, n/len(s)+1)[:n] }

func BenchmarkRecognise(b *testing.B) {
	for _, text := range []struct {
		name string
		d    Dialect
		text string
	}{
		{"plain", DialectPostgres, "SELECT pg_try_advisory_lock($1)"}, {"call", DialectPostgres, "SELECT pg_advisory_lock(id) FROM t WHERE a = 'b'"}, {"begin", DialectPostgres, "BEGIN"},
		{"harmless", DialectPostgres, sized("SELECT 'pg_advisory_lock(1)', a.b, $$c$$ -- d\n", 2000)},
		{"plain", DialectMySQL, "SELECT GET_LOCK(?, ?)"}, {"set", DialectMySQL, "SET NAMES utf8mb4"}, {"harmless", DialectMySQL, sized("SELECT 'GET_LOCK(1,1)', a.b -- d\n", 2000)},
	} {
		b.Run(text.d.String()+"/"+text.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				recognise(text.d, text.text, nil)
			}
		})
	}
}
