package sqllock

import (
	"fmt"
	"strings"
	"testing"
)

func TestOrdinary(t *testing.T) {
	both := []string{"SELECT 1", "select * from t", " \t\n SELECT 1;", "SELECT 1 ; \n", "INSERT INTO t VALUES (1)", "UPDATE t SET a=1", "DELETE FROM t", "WITH x AS (SELECT 1) SELECT 1",
		"VALUES (1)", "CREATE TABLE t (a int)", "ALTER TABLE t ADD b int", "DROP TABLE t", "TRUNCATE t", "SHOW x", "EXPLAIN SELECT 1", "SAVEPOINT a", "RELEASE SAVEPOINT a",
		"/*traceparent='00-0af7-b7ad-01'*/ SELECT 1", "/* a */ /* b */SELECT 1", "-- name: GetUser :one\nSELECT 1", "SELECT'x'", "SELECT(1)", `SELECT "x"`, "SELECT 'é'", "SELECT 1 /* x */ -- y",
		"SELECT advisory, lock_id, blocked, get_locals FROM locks"}
	neither := []string{"", " ", ";", "SELECT", "SELECT;", "SELECT 1; BEGIN", "SELECT ';start'", "SELECT 1; /* c */ SELECT 1", "SELECT 1;-- c", "SELECT 1; COMMIT", "BEGIN", "BEGIN WORK", "START TRANSACTION", "COMMIT", "ROLLBACK", "ROLLBACK TO a", "END", "ABORT", "PREPARE p AS SELECT 1",
		"EXECUTE p", "DECLARE c CURSOR FOR SELECT 1", "FETCH c", "MOVE c", "CLOSE c", "DISCARD ALL", "DEALLOCATE ALL", "FLUSH TABLES", "HANDLER t OPEN", "BACKUP STAGE START", "XA START 'x'",
		"IF 1 THEN SELECT 1", "UNLOCK TABLES", "CALL p()", "foo", "foo bar", "selects 1", "select1", "select_1", "selecté", "SELECT$1", "(SELECT 1)", "1", "/* SELECT 1", "/*! SELECT 1 */", "/* /* */ SELECT 1",
		"/*M! SELECT 1 */", "-- c"}
	for _, d := range []Dialect{DialectPostgres, DialectMySQL} {
		checkOrdinary(t, d, true, both)
		if d == DialectMySQL {
			neither[3], neither[4] = "FETCH", "FETCH;" // one word is a prepared name on PostgreSQL only
		}
		checkOrdinary(t, d, false, neither)
	}
	checkOrdinary(t, DialectPostgres, true, []string{"SET x = 1", "LOCK TABLE t", "SELECT get_lock('a',1)", "SELECT a&b, U& \"x\"", `SELECT U&"x"`, "SELECT *FROM t; LOCK TABLE t", "SELECT /* c */ 1"})
	checkOrdinary(t, DialectPostgres, false, []string{"DO $$ $$", `SELECT U&"x"(1)`, "lock-job:1", "table.x", "SELECT -- c\n", "SELECT /* c */", "REPLACE INTO t", "-- a\rSELECT 1\n", "#c\nSELECT 1", "SELECT-1", "SELECT 1; END", "SELECT 1; DO $$ $$"})
	checkOrdinary(t, DialectMySQL, true, []string{"REPLACE INTO t VALUES (1)", "DO SLEEP(1)", "SELECT pg_advisory_lock(1)", "SELECT U&\"x\"", "-- a\rb\nSELECT 1", "LOAD DATA INFILE 'x' INTO TABLE t", "SELECT 1; END"})
	checkOrdinary(t, DialectMySQL, false, []string{"SET x = 1", "SET STATEMENT a=1 FOR SELECT 1", "LOCK TABLES t READ", "MERGE x", "--\tc\nSELECT 1", "SELECT 1; LOCK TABLES t READ", "SELECT 1; SET STATEMENT a=1 FOR SELECT 1", "SELECT 1;\xa0LOCK TABLES t READ"})
}

func checkOrdinary(t *testing.T, d Dialect, want bool, texts []string) {
	t.Helper()
	for _, text := range texts {
		if got := ordinary(d, text); got != want {
			t.Errorf("ordinary(%v, %q) = %v", d, text, got)
		}
	}
}

// Wherever a function's name stands, in whatever surroundings and case, it is seen.
func TestOrdinarySeesEveryName(t *testing.T) {
	names := map[Dialect][]string{
		DialectPostgres: {"pg_advisory_lock", "pg_advisory_unlock_all", "PG_TRY_ADVISORY_XACT_LOCK_SHARED", "pG_aDvIsOrY_UnLocK"},
		DialectMySQL:    {"get_lock", "RELEASE_LOCK", "rElEaSe_AlL_lOcKs"},
	}
	fills := []string{"x", " ", "_", "__", "_a_a", "_advisory", "advisory_", "_lock", "t_loc", "l_l_", "_advisor", "(", "\xff", "é", "a_b ", "k"}
	for d, list := range names {
		for _, name := range list {
			for _, fill := range fills {
				for before := range 90 {
					for _, after := range []int{0, 1, 5, 8, 9, 20, 40, 64, 100} {
						text := "SELECT " + strings.Repeat(fill, before) + " " + name + strings.Repeat(fill, after) + "("
						if ordinary(d, text) {
							t.Fatalf("%v: not seen in %q", d, text)
						}
					}
				}
			}
		}
	}
}

// ordinaryTexts are texts that a benchmark measures: plain SQL, and those full of what the prefilter looks for.
var ordinaryTexts = []struct{ name, text string }{
	{"sql", "u.id, u.email, o.total_amount, o.created_at FROM users u JOIN orders o ON o.user_id = u.id WHERE u.status = 'active' AND o.country IN ('DE','FR') ORDER BY o.created_at DESC LIMIT 50 -- page\n"},
	{"v", "v"}, {"underscores", "_"}, {"parens", "("}, {"k", "k"}, {"lock", "lock "}, {"lock_", "lock_ "}, {"get_loc", "get_loc "},
	{"advisory", "advisory "}, {"_advisory", "x_advisory "}, {"advisory_", "advisory_ "}, {"pairs", "is or ad so ry "}, {"ampersands", "&"},
}

func BenchmarkOrdinary(b *testing.B) {
	for _, d := range []Dialect{DialectPostgres, DialectMySQL} {
		for _, text := range ordinaryTexts {
			for _, size := range []int{60, 2000} {
				s := ("SELECT " + strings.Repeat(text.text, size/len(text.text)+1))[:size]
				if !ordinary(d, s) {
					b.Fatalf("%v: %q is not ordinary", d, s)
				}
				b.Run(fmt.Sprintf("%v/%s/%d", d, text.name, size), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						ordinary(d, s)
					}
				})
			}
		}
	}
}

func TestOrdinaryAllocatesNothing(t *testing.T) {
	for _, d := range []Dialect{DialectPostgres, DialectMySQL} {
		for _, text := range ordinaryTexts {
			s := "/* c */ SELECT " + strings.Repeat(text.text, 40)
			if n := testing.AllocsPerRun(10, func() { ordinary(d, s) }); n != 0 {
				t.Errorf("%v %s: %v allocations", d, text.name, n)
			}
		}
	}
}
