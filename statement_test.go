package sqllock

import (
	"strings"
	"testing"
)

// A texts maps a wanted statement to texts that must be recognised as it.
type wanted struct {
	name  string
	want  statement
	texts []string
}

func checkAll(t *testing.T, d Dialect, fns lockFunctions, tests []wanted) {
	t.Helper()
	for _, test := range tests {
		for _, text := range test.texts {
			if got := recognise(d, text, fns); got != test.want {
				t.Errorf("%s: %v %.300q\n got %+v\nwant %+v", test.name, d, text, got, test.want)
			}
			if ordinary(d, text) && len(fns) == 0 && !test.want.harmlessUnmarked() {
				t.Errorf("%s: %v %.300q is taken for ordinary", test.name, d, text)
			}
		}
	}
}

// harmlessUnmarked is harmless as long as the session is not marked.
func (s statement) harmlessUnmarked() bool {
	s.runs = false
	return s.harmless()
}

func literal(v verb, keys ...string) statement {
	s := statement{verb: v, nkeys: len(keys)}
	for i, k := range keys {
		s.keys[i].text = k
	}
	return s
}

func params(v verb, ordinals ...int) statement {
	s := statement{verb: v, nkeys: len(ordinals)}
	for i, p := range ordinals {
		s.keys[i].param = p
	}
	return s
}

func (s statement) asShared() statement { s.shared = true; return s }

var (
	nothing   = statement{}
	mayLock   = statement{may: classLocks}
	freesLock = statement{frees: classLocks}
)

// Both dialects have these in common.
func TestNothingToRecognise(t *testing.T) {
	texts := []string{
		"", " ", "\t\n\r\f\v", ";", " ; ;; ", "/* only a comment */", "-- a comment", "-- a comment\n", "/* a */ -- b\n ;",
		"SELECT 1", "select 1;", "SELECT 1 ; ", "/* c */ SELECT 1 -- d", "VALUES (1)", "WITH x AS (SELECT 1) SELECT * FROM x",
		"INSERT INTO t (a, b) VALUES (1, 'x')", "UPDATE t SET a = 1 WHERE b = 'y'", "DELETE FROM t", "SELECT * FROM t FOR UPDATE",
		"SELECT locked, release, lock_id FROM locks WHERE get_locked(1) OR relock()", "CREATE TABLE lock_jobs (id int)",
		"SELECT 'BEGIN', 'LOCK TABLES t WRITE'", "SAVEPOINT a", "ROLLBACK TO a", "ROLLBACK TO SAVEPOINT a", "ROLLBACK WORK TO SAVEPOINT a",
		"RELEASE SAVEPOINT a", "SELECT 1; SELECT 2", "SET x = 1", "SHOW something", "EXPLAIN SELECT 1",
		"SELECT count(*) FROM begin_work, commit_log", "SELECT a.commit, b.execute, c.fetch FROM t",
	}
	for _, d := range []Dialect{DialectPostgres, DialectMySQL} {
		checkAll(t, d, nil, []wanted{{"nothing", nothing, texts}})
	}
}

func TestTransactionsByText(t *testing.T) {
	begin, end := statement{verb: verbBegin}, statement{verb: verbEnd}
	for _, d := range []Dialect{DialectPostgres, DialectMySQL} {
		checkAll(t, d, nil, []wanted{
			{"begin", begin, []string{"BEGIN", "begin;", " BEGIN ; ; ", "/* c */ BEGIN -- d", "BEGIN WORK", "START TRANSACTION",
				"start /* c */ transaction read only", "COMMIT AND CHAIN", "COMMIT WORK AND CHAIN", "ROLLBACK AND CHAIN", "rollback work and chain;"}},
			{"end", end, []string{"COMMIT", "commit;", "COMMIT WORK", "ROLLBACK", "ROLLBACK WORK", "COMMIT AND NO CHAIN", "ROLLBACK WORK AND NO CHAIN"}},
			{"opens", statement{opens: true}, []string{"BEGIN; SELECT 1", "SELECT 1; BEGIN", "COMMIT; BEGIN", "BEGIN; COMMIT; START TRANSACTION;",
				"BEGIN; COMMIT AND CHAIN", "BEGIN; INSERT INTO t VALUES (1); SAVEPOINT a; ROLLBACK TO a"}},
			{"ends", statement{ends: true}, []string{"SELECT 1; COMMIT", "BEGIN; SELECT 1; COMMIT", "COMMIT; SELECT 1", "ROLLBACK; SELECT 1;",
				"BEGIN; COMMIT; SAVEPOINT a"}},
		})
	}
	checkAll(t, DialectPostgres, nil, []wanted{
		{"begin", begin, []string{"BEGIN TRANSACTION", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY", "START TRANSACTION ISOLATION LEVEL READ COMMITTED",
			"END AND CHAIN", "ABORT AND CHAIN", "COMMIT TRANSACTION AND CHAIN"}},
		{"end", end, []string{"END", "end;", "END WORK", "END TRANSACTION", "ABORT", "ABORT WORK", "ROLLBACK TRANSACTION", "COMMIT TRANSACTION",
			"PREPARE TRANSACTION 'x'", "prepare transaction E'x'", "END AND NO CHAIN"}},
		{"not ended", nothing, []string{"COMMIT PREPARED 'x'", "ROLLBACK PREPARED 'x'", "ROLLBACK TRANSACTION TO SAVEPOINT a", "RELEASE a"}},
	})
	checkAll(t, DialectMySQL, nil, []wanted{
		{"begin", begin, []string{"START TRANSACTION WITH CONSISTENT SNAPSHOT", "XA START 'x'", "xa begin 'x','y'", "/*!40101 START TRANSACTION */"}},
		{"end", end, []string{"COMMIT RELEASE", "ROLLBACK NO RELEASE", "XA COMMIT 'x' ONE PHASE", "XA ROLLBACK 'x'"}},
		{"neither", nothing, []string{"XA END 'x'", "XA PREPARE 'x'", "XA RECOVER", "START REPLICA", "START GROUP_REPLICATION", "STOP REPLICA"}},
	})
}

func TestLockFunctions(t *testing.T) {
	fns, err := newLockFunctions([]string{"lock_job", "App.Take_Lock"})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []Dialect{DialectPostgres, DialectMySQL} {
		checkAll(t, d, fns, []wanted{
			{"a call", mayLock, []string{"SELECT lock_job(1)", "SELECT LOCK_JOB (1)", "SELECT x.lock_job/* c */(1)", "SELECT take_lock('a')",
				"SELECT app . TAKE_LOCK ( 'a' )", "INSERT INTO t SELECT lock_job(a) FROM b"}},
			{"no call", nothing, []string{"SELECT lock_job", "SELECT 'lock_job(1)'", "SELECT xlock_job(1)", "SELECT lock_jobs(1)"}},
		})
	}
	checkAll(t, DialectPostgres, fns, []wanted{{"quoted", mayLock, []string{`SELECT "Take_Lock"(1)`, `DO $$ BEGIN PERFORM app.Take_lock(1); END $$`}}})
	checkAll(t, DialectMySQL, fns, []wanted{{"quoted", mayLock, []string{"SELECT `Take_Lock`(1)"}}})
	for text, want := range map[string]bool{"": false, "SELECT LOCK_JOB": true, "xtake_lockx": true, "app.take": false, "lock_jo": false} {
		if got := fns.mentioned(text); got != want {
			t.Errorf("mentioned(%q) = %v", text, got)
		}
	}
	if lockFunctions(nil).mentioned("x") || lockFunctions(nil).contains("x") {
		t.Error("no functions, yet one is mentioned")
	}
}

func TestNewLockFunctionsRefuses(t *testing.T) {
	for _, name := range []string{"", " ", ".", "a.", ".a", "a..b", "lock job", "f()", `"f"`, "1f", "a;b", "$x", "a-b", "f\n"} {
		if _, err := newLockFunctions([]string{"ok", name}); err == nil || !strings.Contains(err.Error(), "schema.name") {
			t.Errorf("%q: error %v", name, err)
		}
	}
	for _, name := range []string{"f", "_f1$", "a.b", "a.b.C", "größe", "Ж.x"} {
		if fns, err := newLockFunctions([]string{name}); err != nil || len(fns) != 1 {
			t.Errorf("%q: %v, %v", name, fns, err)
		}
	}
}

// Text of another client character set: the wrong byte may be a blank, or swallow a quote's backslash.
func TestOtherCharacterSets(t *testing.T) {
	checkAll(t, DialectMySQL, nil, []wanted{
		{"latin1", mayLock, []string{"SELECT\xa0GET_LOCK('x',1)", "SELECT 1\xa0,\xa0GET_LOCK\xa0('x',1)"}},
		{"latin1", statement{may: classTables}, []string{"LOCK\xa0TABLES t WRITE"}},
		{"gbk", mayLock, []string{"SELECT '\xbf\\', GET_LOCK('x',1)"}},
		{"blobs", nothing, []string{"INSERT INTO t VALUES (_binary'\xff\xfe;\\'\x00')", "SELECT 'caf\xe9', 1", "SELECT '\xa0GET_LOCK(\xa0'"}},
	})
	checkAll(t, DialectPostgres, nil, []wanted{
		{"gbk", mayLock, []string{"SELECT E'\xbf\\', pg_advisory_lock(1)", "SELECT E'\xbf\\', pg_advisory_lock(1) --'"}},
		{"latin1", nothing, []string{"SELECT 'caf\xe9', \"\xff\" FROM t"}},
	})
}

// A long text is not read in every way: what it does not mention, it cannot do.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat(`'\\', `, longestRead/6+1) + "1"
	checkAll(t, DialectPostgres, nil, []wanted{
		{"nothing", nothing, []string{"SELECT " + long, "VACUUM (x, " + long + ")"}},
		{"a name", mayLock, []string{"SELECT 'pg_advisory_lock(', " + long, "SELECT pg_advisory_lock(1), " + long}},
	})
	checkAll(t, DialectMySQL, nil, []wanted{
		{"nothing", nothing, []string{"SELECT " + long, "SET @x = (" + long + ")"}},
		{"a name", statement{may: classLocks | classTables}, []string{"SELECT 'get_lock(', " + long, "SET @x = 'lock', @y = (" + long + ")"}},
		{"a handler", statement{may: classHandler}, []string{"SET @x = 'handler', @y = (" + long + ")"}},
		{"anything", statement{may: allClasses}, []string{"SET @x = 'execute', @y = (" + long + ")"}},
	})
	versioned := "SET @x = '" + strings.Repeat("x", longestRead) + "' /*!80000 , @y = 'lock' */"
	checkAll(t, DialectMySQL, nil, []wanted{{"versioned", statement{may: classLocks | classTables}, []string{versioned}}})
	if got := recognise(DialectMySQL, "SET @x = lock_job(1), @y = ("+long+")", lockFunctions{"lock_job"}); got.may&classLocks == 0 {
		t.Errorf("a user's function in a long text: %+v", got)
	}
}

func TestTouches(t *testing.T) {
	for v := verbNone; v <= verbCloseAll; v++ {
		got := touches(DialectMySQL, v)
		none := v == verbNone || v == verbTxLock || v == verbTryTxLock || v == verbDeallocateAll || v == verbCloseAll
		if (got == 0) != none {
			t.Errorf("touches(%d) = %d", v, got)
		}
	}
}
