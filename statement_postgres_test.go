package sqllock

import "testing"

func TestPostgresPlain(t *testing.T) {
	checkAll(t, DialectPostgres, nil, []wanted{
		{"acquire", literal(verbAcquire, "1"), []string{"SELECT pg_advisory_lock(1)", "select PG_ADVISORY_LOCK(1)", "SELECT pg_advisory_lock ( 1 ) ;",
			`SELECT "pg_advisory_lock"(1)`, "SELECT pg_catalog.pg_advisory_lock(1)", "SELECT PG_Catalog . /* c */ pg_advisory_lock -- d\n (1)",
			`SELECT "pg_catalog"."pg_advisory_lock"(1)`, "/* a /* nested */ */ SELECT pg_advisory_lock(1) /* b */", "-- job\nSELECT pg_advisory_lock(1)",
			"-- job\rSELECT pg_advisory_lock(1)", ";; SELECT pg_advisory_lock(1);;", "SELECT pg_advisory_lock(+1)", "SELECT pg_advisory_lock(001)",
			"SELECT pg_advisory_lock(1::bigint)", "SELECT pg_advisory_lock(1 :: INT8)", "SELECT pg_advisory_lock(1::int4)", "SELECT pg_advisory_lock(1::integer)",
			"SELECT pg_advisory_lock(CAST(1 AS bigint))", "SELECT pg_advisory_lock(cast ( 1 as int ))", `SELECT U&"pg\005Fadvisory_lock"(1)`,
			`SELECT u&"pg!005Fadvisory!+00005flock" /* c */ UESCAPE -- d` + "\n'!' (1)",
			`SELECT U&"\0070\0067\005f\0061\0064\0076\0069\0073\006f\0072\0079\005f\006c\006f\0063\006b"(1)`,
			"SELECT pg_advisory_lock(1) AS locked", "SELECT pg_advisory_lock(1) locked", `SELECT pg_advisory_lock(1) AS "a b"`, `SELECT pg_advisory_lock(1) "isnull"`,
			"SELECT pg_advisory_lock(1) AS isnull", "SELECT\tpg_advisory_lock\n(\r1\f)"}},
		{"negative", literal(verbAcquire, "-5"), []string{"SELECT pg_advisory_lock(-5)", "SELECT pg_advisory_lock(- 5)", "SELECT pg_advisory_lock(-5::bigint)"}},
		{"largest", literal(verbAcquire, "9223372036854775807"), []string{"SELECT pg_advisory_lock(9223372036854775807)"}},
		{"smallest", literal(verbAcquire, "-9223372036854775808"), []string{"SELECT pg_advisory_lock(-9223372036854775808)"}},
		{"pair", literal(verbAcquire, "1", "-2"), []string{"SELECT pg_advisory_lock(1,-2)", "SELECT pg_advisory_lock(1 , -2 ::int4)",
			"SELECT pg_advisory_lock(cast(1 as int), -2)"}},
		{"widest pair", literal(verbTry, "2147483647", "-2147483648"), []string{"SELECT pg_try_advisory_lock(2147483647,-2147483648)"}},
		{"parameter", params(verbAcquire, 1), []string{"SELECT pg_advisory_lock($1)", "SELECT pg_advisory_lock($1::bigint)", "SELECT pg_advisory_lock(CAST($1 AS int8))"}},
		{"parameters", params(verbAcquire, 2, 1), []string{"SELECT pg_advisory_lock($2,$1)", "SELECT pg_advisory_lock($2::int, $1::int4)"}},
		{"far parameter", params(verbAcquire, 12), []string{"SELECT pg_advisory_lock($12)"}},
		{"mixed pair", statement{verb: verbTry, keys: [2]operand{{text: "7"}, {param: 1}}, nkeys: 2}, []string{"SELECT pg_try_advisory_lock(7, $1)"}},
		{"shared", literal(verbAcquire, "1").asShared(), []string{"SELECT pg_advisory_lock_shared(1)"}},
		{"try", literal(verbTry, "1"), []string{"SELECT pg_try_advisory_lock(1)"}},
		{"try shared", literal(verbTry, "1").asShared(), []string{"SELECT pg_try_advisory_lock_shared(1) AS ok"}},
		{"release", literal(verbRelease, "1"), []string{"SELECT pg_advisory_unlock(1)"}},
		{"release shared", literal(verbRelease, "1", "2").asShared(), []string{"SELECT pg_advisory_unlock_shared(1, 2)"}},
		{"release all", statement{verb: verbReleaseAll}, []string{"SELECT pg_advisory_unlock_all()", "SELECT pg_advisory_unlock_all ( ) AS x;"}},
		{"transaction lock", literal(verbTxLock, "1"), []string{"SELECT pg_advisory_xact_lock(1)"}},
		{"shared transaction lock", literal(verbTxLock, "1").asShared(), []string{"SELECT pg_advisory_xact_lock_shared(1)"}},
		{"try transaction lock", literal(verbTryTxLock, "1", "2"), []string{"SELECT pg_try_advisory_xact_lock(1,2)"}},
		{"try shared transaction lock", params(verbTryTxLock, 1).asShared(), []string{"SELECT pg_try_advisory_xact_lock_shared($1)"}},
	})
}

func TestPostgresCalls(t *testing.T) {
	checkAll(t, DialectPostgres, nil, []wanted{
		{"not plain", mayLock, []string{"SELECT pg_advisory_lock(NULL)", "SELECT pg_advisory_lock('1')", "SELECT pg_advisory_lock(1.0)",
			"SELECT pg_advisory_lock(9223372036854775808)", "SELECT pg_advisory_lock(2147483648, 1)", "SELECT pg_advisory_lock(1::bigint, 2)",
			"SELECT pg_advisory_lock(5000000000::int4)", "SELECT pg_advisory_lock(1::text)", "SELECT pg_advisory_lock((1))", "SELECT pg_advisory_lock(1+1)",
			"SELECT pg_advisory_lock(- -1)", "SELECT pg_advisory_lock(0x10)", "SELECT pg_advisory_lock(1_0)", "SELECT pg_advisory_lock(1e0::bigint)",
			"SELECT pg_advisory_lock($0)", "SELECT pg_advisory_lock(bigint '1')", "SELECT pg_advisory_lock(VARIADIC 1)", "SELECT pg_advisory_lock(1,2,3)",
			"SELECT pg_advisory_lock()", "SELECT pg_advisory_lock(id) FROM t", "SELECT pg_advisory_lock(1) FROM t", "SELECT pg_advisory_lock(1) WHERE true",
			"SELECT pg_advisory_lock(1) LIMIT 1", "SELECT pg_advisory_lock(1) OFFSET 1", "SELECT pg_advisory_lock(1)::text", "SELECT pg_advisory_lock(1) IS NULL",
			"SELECT pg_advisory_lock(1) isnull", "SELECT pg_try_advisory_lock(1) notnull", "SELECT pg_advisory_lock(1), 2", "SELECT 1, pg_advisory_lock(1)",
			"SELECT ALL pg_advisory_lock(1)", "SELECT DISTINCT pg_advisory_lock(1)", "SELECT NOT pg_try_advisory_lock(1)", "(SELECT pg_advisory_lock(1))",
			"SELECT pg_advisory_lock(1) UNION SELECT 1", "SELECT pg_advisory_lock(1) FOR UPDATE", "SELECT pg_advisory_lock(generate_series(1,3))",
			"SELECT pg_advisory_lock(1) AS a INTO x", "SELECT pg_advisory_lock(1) AS", "SELECT public.pg_advisory_lock(1)", "SELECT db.pg_catalog.pg_advisory_lock(1)",
			`SELECT "PG_CATALOG".pg_advisory_lock(1)`, "SELECT pg_advisory_lock(1), pg_advisory_unlock(1)"}},
		{"anywhere", mayLock, []string{"SELECT * FROM pg_advisory_lock(1)", "SELECT * FROM ROWS FROM (pg_advisory_lock(1))", "SELECT 1 WHERE pg_try_advisory_lock(1)",
			"VALUES (pg_advisory_lock(1))", "WITH x AS (SELECT pg_advisory_lock(1)) TABLE x", "INSERT INTO t SELECT pg_advisory_lock(1)",
			"DELETE FROM t RETURNING pg_advisory_lock(id)", "UPDATE t SET a = (SELECT pg_advisory_lock(1))", "EXPLAIN ANALYZE SELECT pg_advisory_lock(1)",
			"EXPLAIN SELECT pg_advisory_lock(1)", "COPY (SELECT pg_advisory_lock(3)) TO STDOUT", "CREATE TABLE x AS SELECT pg_advisory_lock(1)",
			"CALL p(pg_advisory_lock(1))", "SELECT coalesce(pg_advisory_lock(1))", "SELECT CASE WHEN true THEN pg_advisory_lock(1) END", "SELECT -pg_advisory_lock(1)",
			"SELECT 1 -- c\n, pg_advisory_lock(1)", "SELECT pg_advisory_lock /* c */ -- d\n (1) FROM t", "SELECT $a$ $b$ $a$, pg_try_advisory_lock(1), $b$ $b$",
			"SELECT 1; SELECT pg_advisory_lock(1)", "SELECT pg_advisory_lock(1); SELECT pg_advisory_lock(2)"}},
		{"attribute notation", mayLock, []string{"SELECT (5::bigint).pg_advisory_lock", "SELECT (y) . pg_try_advisory_lock FROM x(y)", "SELECT $1.pg_advisory_lock",
			`SELECT (a)[1]."pg_advisory_lock"`, `SELECT (1).U&"pg\005fadvisory_lock"`}},
		{"no attribute notation", nothing, []string{"SELECT x.pg_advisory_lock FROM x"}},
		{"releases", freesLock, []string{"SELECT pg_advisory_unlock(id) FROM t", "SELECT pg_advisory_unlock(1), pg_advisory_unlock(2)", "SELECT pg_advisory_unlock('1')",
			"SELECT pg_advisory_unlock_all() FROM t", "SELECT pg_advisory_unlock(NULL)", "SELECT 1; SELECT pg_advisory_unlock(1)", "SELECT (1).pg_advisory_unlock"}},
		{"transaction locks", statement{txLock: true}, []string{"SELECT pg_advisory_xact_lock(id) FROM t", "SELECT pg_advisory_xact_lock('1')",
			"SELECT 1; SELECT pg_advisory_xact_lock(1)", "SELECT pg_try_advisory_xact_lock(1), 2", "SELECT (1).pg_advisory_xact_lock"}},
		{"both", statement{may: classLocks, txLock: true}, []string{"SELECT pg_advisory_lock(1), pg_advisory_xact_lock(1)"}},
		{"with a transaction", statement{may: classLocks, ends: true}, []string{"BEGIN; SELECT pg_advisory_lock(1); ROLLBACK"}},
		{"with a transaction", statement{frees: classLocks, opens: true}, []string{"SELECT pg_advisory_unlock(1); BEGIN"}},
	})
}

func TestPostgresNoCalls(t *testing.T) {
	checkAll(t, DialectPostgres, nil, []wanted{{"no call", nothing, []string{
		`SELECT "PG_ADVISORY_LOCK"(1)`, "SELECT 1 AS pg_advisory_lock", `SELECT 2 AS "pg_advisory_lock(1)"`, "SELECT pg_advisory_lock FROM t", "SELECT t.pg_advisory_lock FROM t",
		"SELECT 'pg_advisory_lock(1)', $$pg_advisory_lock(1)$$, $t$ select pg_advisory_lock(1) $t$, 'it''s pg_advisory_lock(1)' -- pg_advisory_lock(1)",
		`SELECT E'it\'s pg_advisory_lock(1)'`, `SELECT e'\\', U&'pg_advisory_lock(1)', b'0''pg_advisory_lock(1)', N'pg_advisory_lock(1)'`,
		"SELECT 1 /* /* */ pg_try_advisory_lock(1) */", "SELECT 1 /* pg_try_advisory_lock(1)", "SELECT query FROM pg_stat_activity WHERE query LIKE '%pg_advisory_lock(%'",
		"SELECT count(*) FROM pg_stat_activity WHERE query ILIKE '%pg_try_advisory_lock(%' AND state = lower('X')", "SELECT pg_advisory_locks(1), xpg_advisory_lock(1)",
		"SELECT pg_advisory_lock$(1), pg_advisory_lockä(1)", "SELECT a$b$ FROM t WHERE c = $b$ pg_advisory_lock(1) $b$", "SELECT $1$a$pg_advisory_lock(1)$a$",
		`SELECT "a""pg_advisory_lock(1)"`, "SELECT 'a\npg_advisory_lock(1)'", "SELECT E'a'\n'\\'pg_advisory_lock(1)'", "SELECT E'a' -- c\n -- d\n '\\' , pg_advisory_lock(1)--'",
		`SELECT U&"pg\005Fadvisory_lockx"(1)`, `SELECT U&"pg!005Fadvisory_lock"(1)`, `SELECT U&"\zzzzpg_advisory_lock\"(1)`, "LOCK TABLE t IN ACCESS EXCLUSIVE MODE",
		"SET lock_timeout = '1s'", "SELECT set_config('lock_timeout', '100ms', false)", "DISCARD PLANS", "DISCARD TEMP", "RESET ALL", "CLOSE c", "DEALLOCATE p",
		"DEALLOCATE PREPARE p", "LISTEN x", "NOTIFY x, 'pg_advisory_lock(1)'", "VACUUM t", "ANALYZE t", "COPY t FROM STDIN", "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
		"PREPARE p AS SELECT 1", "PREPARE p (int) AS SELECT $1", "CALL p(1)", "SECURITY LABEL ON TABLE t IS 'x'",
		"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 1 END AS end; END",
		"CREATE OR REPLACE PROCEDURE p() LANGUAGE sql BEGIN ATOMIC INSERT INTO t VALUES (1); END; SELECT 1",
		"CREATE RULE r AS ON INSERT TO t DO ALSO (INSERT INTO u VALUES (1); NOTIFY x)", "DO $$ BEGIN RAISE NOTICE 'x'; END $$",
		"do language plpgsql 'BEGIN RAISE NOTICE ''x''; END'", "SELECT 1 # 2, 3 #- 4, '{}'::jsonb #>> '{a}'", "SELECT 5*-1, 5*/* c */-1, 1--1\n",
	}}})
	checkAll(t, DialectPostgres, nil, []wanted{{"only runs", statement{runs: true}, []string{
		"EXECUTE p", "EXECUTE p(117)", "SELECT ts_stat('SELECT v FROM docs')", "FETCH 2 FROM c", "MOVE c", "EXPLAIN ANALYZE EXECUTE p", "CREATE TABLE x AS EXECUTE p", "SELECT query_to_xml('SELECT 1', true, true, '')",
		"SELECT * FROM t FETCH FIRST 5 ROWS ONLY", "DO $$ DECLARE c refcursor := 'c'; r record; BEGIN FETCH c INTO r; END $$",
		"CREATE TABLE x AS EXECUTE p; SELECT 1"}}})
}

func TestPostgresSessionStatements(t *testing.T) {
	checkAll(t, DialectPostgres, nil, []wanted{
		{"DO", mayLock, []string{"DO $$ BEGIN PERFORM pg_advisory_lock(1181); END $$", "do language plpgsql $x$ begin perform PG_ADVISORY_LOCK(1); end $x$",
			"DO 'BEGIN PERFORM pg_advisory_lock(1); END'", "DO $$ BEGIN EXECUTE 'SELECT pg_adv' || 'isory_lock(1)'; END $$", `DO E'BEGIN PERFORM pg_adv\151sory_lock(1); END'`,
			`DO U&'BEGIN PERFORM pg_adv\0069sory_lock(1); END'`, `DO U&'x!0061' UESCAPE '!'`, `DO $$ BEGIN PERFORM U&"pg\005f\0061dvisory_lock"(1); END $$`,
			"DO LANGUAGE plpython3u $$ plpy.run('x') $$", "DO $$ x $$ LANGUAGE 'plperlu'", "DO $$ BEGIN PERFORM query_to_xml('SELECT pg_adv' || 'isory_lock(1)', true, true, ''); END $$"}},
		{"PREPARE", statement{marks: classLocks}, []string{"PREPARE p(bigint) AS SELECT pg_advisory_lock($1)", "PREPARE p AS SELECT pg_try_advisory_lock(1)",
			"PREPARE transaction AS SELECT pg_advisory_lock(1)", "PREPARE transaction(int) AS SELECT pg_advisory_lock($1)"}},
		{"cursor", statement{may: classLocks, marks: classLocks, cursor: true}, []string{"DECLARE c CURSOR FOR SELECT pg_advisory_lock(g) FROM generate_series(1,5) g",
			"DECLARE c CURSOR WITH HOLD FOR SELECT pg_advisory_lock(1)", "declare c no scroll cursor for values (pg_try_advisory_lock(1))"}},
		{"text runners", statement{may: classLocks, runs: true}, []string{"SELECT query_to_xml('SELECT pg_advisory_lock(1)', true, true, '')",
			"SELECT * FROM ts_stat($$SELECT to_tsvector(pg_advisory_lock(1)::text)$$)", "SELECT crosstab3('SELECT pg_try_advisory_lock(1)')"}},
		{"DISCARD ALL", statement{verb: verbDiscardAll}, []string{"DISCARD ALL", "discard /* c */ all;"}},
		{"DEALLOCATE ALL", statement{verb: verbDeallocateAll}, []string{"DEALLOCATE ALL", "deallocate prepare all"}},
		{"CLOSE ALL", statement{verb: verbCloseAll}, []string{"CLOSE ALL", "close all ;"}},
		{"no effect with others", nothing, []string{"SELECT 1; DISCARD ALL", "DISCARD ALL; SELECT 1", "CLOSE ALL; SELECT 1", "DEALLOCATE ALL; SELECT 1"}},
		{"several", statement{marks: classLocks, opens: true, runs: true}, []string{"BEGIN; PREPARE p AS SELECT pg_advisory_lock(1); EXECUTE p"}},
	})
}

// pgx runs a prepared statement if its name is sent as a query.
func TestPostgresPreparedNames(t *testing.T) {
	checkAll(t, DialectPostgres, nil, []wanted{
		{"a name", mayLock, []string{"lock_it", "lockit;", " lockit ", "lock", "select", "lock-job:1", "lock.job", "update:user", "lock/job", "table|x", "a.b", "42", "Ж", `"x"`, "$1", "jobs select", "pg_advisory_lock(1)",
			"stmtcache_0123", "UPSERT INTO t VALUES (1)", "lockit; SELECT 1", "vacuum", "/* c */ x", "?"}},
		{"perhaps a name", statement{may: classLocks, opens: true}, []string{"BEGIN!0", "x y; BEGIN"}},
		{"a statement", nothing, []string{"SELECT-1", "SELECT.5", "SELECT*FROM t", "SELECT/* c */1", "TABLE/* c */t", "TABLE-- c\n t", `TABLE"t"`, "VALUES(1)", "LOCK t",
			"TABLE t", "(SELECT 1)", "((SELECT 1))", "import foreign schema x from server y into z", "LOAD 'x'", "CHECKPOINT; SELECT 1",
			"REASSIGN OWNED BY a TO b", "REFRESH MATERIALIZED VIEW v", "UNLISTEN *", "ANALYSE t", "MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE"}},
	})
}

// A backslash in a plain string escapes if standard_conforming_strings is off.
func TestPostgresBackslashes(t *testing.T) {
	checkAll(t, DialectPostgres, nil, []wanted{
		{"harmless either way", nothing, []string{`SELECT '\'; BEGIN; SELECT ' || 'b\'c'`, `SELECT 'a\b pg_advisory_lock(1)'`, `SELECT 'C:\', 'pg_advisory_lock(1)'`, `SELECT 'a\', pg_advisory_lock(1), '`, `SELECT '\\'`}},
		{"a call in one reading", mayLock, []string{`SELECT 'a\', pg_advisory_lock(1)`, `SELECT 'a\'', pg_advisory_lock(1), ''`, `SELECT 'a\', pg_advisory_lock(1), 'b'`}},
		{"the same in both", literal(verbAcquire, "1"), []string{`SELECT pg_advisory_lock(1) AS "\"`, `SELECT pg_advisory_lock(1) -- \`, `SELECT pg_advisory_lock(1) /* \' */`}},
		{"a transaction in one reading", statement{may: classTx}, []string{`SELECT '\'; BEGIN; SELECT ' AS "a'--"`}},
	})
}
