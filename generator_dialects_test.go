package sqllock_test

import (
	"fmt"
	"strings"
)

var (
	postgresDialect = newPostgresDialect()
	mysqlDialect    = newMySQLDialect("MySQL")
	mariadbDialect  = newMySQLDialect("MariaDB")
)

func newPostgresDialect() *dialect {
	d := &dialect{
		dollar: true,
		tries:  []string{"pg_try_advisory_lock", "pg_try_advisory_lock", "pg_try_advisory_lock_shared"},
		spaces: []string{" ", "\n", "\t", "\r\n", "\f", "/* c */", "/**/", "/* pg_advisory_lock(9) /* ' */ */", "-- it's\n", "--\n", "--x\r",
			"/* \" $$ */", " /* /* /* */ */ */ "},
		suffixes: []string{";", ";;", " AS x", " x", " AS \"a b\"", " -- c", " /* c */", " LIMIT 1", " LIMIT 0", " OFFSET 0", " OFFSET 1",
			" WHERE true", " WHERE false", " WHERE «B»", " FOR UPDATE", " UNION SELECT «C»", " UNION ALL SELECT NULL", " ORDER BY 1",
			" GROUP BY 1", " FETCH FIRST 1 ROW ONLY", " INTO TEMP x«N»", " FROM t", " FROM generate_series(1,2)", " FROM t WHERE a = 99",
			" HAVING true", " WINDOW w AS ()", " IS NULL", "::text", "«W»;«W»", " EXCEPT SELECT NULL", ", 1", ", «C»", "::text || «S»", " notnull", " isnull",
			" AS pg_advisory_unlock_all", " COLLATE \"C\""},
		templates: []string{
			"SELECT 1, «C»", "SELECT «C», «C»", "SELECT («C»)", "SELECT «C» IS NULL", "SELECT CAST(«C» AS text)", "SELECT NOT «B»", "SELECT «B»::int * 0",
			"SELECT CASE WHEN «B» THEN 1 ELSE 0 END", "SELECT CASE WHEN false THEN «B» END", "SELECT COALESCE(«B», false)", "SELECT (SELECT «C»)", "SELECT ARRAY[«B»]",
			"SELECT ROW(«C»)", "SELECT «B» AND «B»", "SELECT «B» OR «B»", "SELECT 1 WHERE «B»", "SELECT g FROM generate_series(1,3) g WHERE «F»(g)",
			"SELECT «F»(g) FROM generate_series(1,2) g LIMIT 1", "SELECT «F»(generate_series(1,2))", "SELECT * FROM «C»", "SELECT FROM «C» x",
			"SELECT * FROM t, LATERAL «C» x", "SELECT * FROM (SELECT «C» OFFSET 0) s", "SELECT 1 FROM (SELECT «C») s", "WITH w AS (SELECT «C») SELECT * FROM w",
			"WITH w AS MATERIALIZED (SELECT «C» c) SELECT 1 FROM w", "VALUES («C»)", "VALUES (1), («B»::int)", "(SELECT «C»)", "((SELECT «C»))",
			"INSERT INTO t(a) VALUES (1) RETURNING «C»", "INSERT INTO t(s) SELECT «C»::text", "INSERT INTO t(s) VALUES («C»::text)", "UPDATE t SET s = «C»::text",
			"UPDATE t SET a = a RETURNING «C»", "DELETE FROM t WHERE a = 99 AND «B»", "DELETE FROM t WHERE NOT «B»", "SELECT count(*) FILTER (WHERE «B») FROM t",
			"SELECT max(a) FROM t HAVING «B»", "SELECT a FROM t ORDER BY «B»", "SELECT a FROM t GROUP BY a, «B»", "SELECT * FROM t JOIN t u ON «B»",
			"EXPLAIN SELECT «C»", "EXPLAIN ANALYZE SELECT «C»", "EXPLAIN (ANALYZE, COSTS OFF) SELECT «C»", "EXPLAIN (ANALYZE false) SELECT «C»",
			"COPY (SELECT «C») TO '/dev/null'", "CREATE TEMP TABLE x«N» AS SELECT «C»::text", "CREATE TEMP TABLE x«N» AS SELECT «C»::text WITH NO DATA",
			"CREATE TEMP TABLE IF NOT EXISTS x«N» AS SELECT «C»::text", "SELECT «C»::text INTO TEMP x«N»", "ALTER TABLE t ALTER COLUMN s TYPE text USING «C»::text",
			"DO $$ BEGIN PERFORM «C»; END $$", "DO $q$ DECLARE x text; BEGIN SELECT «C» INTO x; END $q$", "DO 'BEGIN PERFORM «Q»; END'",
			"DO $$ BEGIN EXECUTE 'SELECT «Q»'; END $$", "DO $$ BEGIN EXECUTE 'SELECT ' || 'pg_adv' || 'isory_lock(1)'; END $$",
			"DO LANGUAGE plpgsql $$ BEGIN PERFORM «C»; RAISE EXCEPTION 'x'; EXCEPTION WHEN OTHERS THEN NULL; END $$",
			"DO $$ BEGIN PERFORM «C»; RAISE EXCEPTION 'x'; END $$ LANGUAGE plpgsql", "DO E'BEGIN PERFORM pg_advisory\\\\137lock(1); END'",
			"SELECT «C», 1/0", "SELECT «C», 1/(a-1) FROM t", "SELECT «C»::text::int", "SELECT 1/(g-2), «F»(g) FROM generate_series(1,3) g",
			"SELECT query_to_xml('SELECT «Q»', false, false, '')", "SELECT * FROM ts_stat('SELECT to_tsvector(«Q»::text)')",
			"SELECT «S», «C», «S»", "SELECT set_config('a.b', «C»::text, false)", "SELECT (1::bigint).«F»", "SELECT s.g.«F» FROM (SELECT 1::bigint AS g) s",
			"SELECT 1 AS a$$, «C» AS b$$", "SELECT E'a'\n'\\'' , «C», 'x'", "SELECT E'a'--'\n'\\'' , «C», 'x'", "SELECT 'a'\n'\\' , «C», 'x'", "SELECT 'C:\\', E'a'\n'\\'' , «C», 'x'", "SELECT «B» ISNULL", "SELECT U&'\\' , «C», 'x'",
			"SELECT 1 +-- «S»\n 1, «C»", "SELECT 3*/* «S» */4, «C»", "SELECT $1, «C»", "SELECT «S»«W»AS«W»x,«W»«C»", "SELECT b'1', «C», x'1f'", "SELECT '' '' , «C»",
			"SELECT 1.e1, «C»", "SELECT .5, «C»", "SELECT 1 AS é$a$, «C» AS b$a$", "SELECT $_a1$«S»$_a1$, «C»", "SELECT «C» /* /* */ , «C» */", "SELECT -- «C»\n «C»",
			"MERGE INTO t USING (SELECT 1) s ON «B» WHEN MATCHED THEN DO NOTHING", "SELECT * FROM ROWS FROM («C», «C») x", "SELECT DISTINCT «B»", "SELECT ALL «C»",
			"SELECT «C» «C»", "SELECT pg_sleep(0), «C»", "SELECT "},
		session: []string{"BEGIN", "BEGIN", "COMMIT", "COMMIT", "ROLLBACK", "ROLLBACK", "START TRANSACTION READ ONLY", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "END", "ABORT",
			"SAVEPOINT a", "ROLLBACK TO a", "RELEASE a", "DISCARD ALL", "DISCARD TEMP", "RESET ALL", "DEALLOCATE ALL", "DEALLOCATE PREPARE ALL", "CLOSE ALL",
			"PREPARE p«N» AS SELECT «C»", "PREPARE p«N»(bigint) AS SELECT «F»($1)", "PREPARE p«N» AS SELECT 1", "EXECUTE p«N»", "EXECUTE p«N»(2)", "EXPLAIN ANALYZE EXECUTE p«N»",
			"CREATE TEMP TABLE x«N» AS EXECUTE p«N»", "DEALLOCATE p«N»", "DECLARE c«N» CURSOR FOR SELECT «C»", "DECLARE c«N» CURSOR WITH HOLD FOR SELECT «C»",
			"DECLARE c«N» SCROLL CURSOR FOR SELECT «F»(g) FROM generate_series(1,3) g", "FETCH c«N»", "FETCH ALL FROM c«N»", "MOVE 1 FROM c«N»", "MOVE c«N»", "CLOSE c«N»",
			"SELECT pg_advisory_xact_lock(«N»)", "SELECT pg_try_advisory_xact_lock(1, 1)", "SELECT pg_advisory_xact_lock_shared(1), «C»", "LOCK TABLE t", "SELECT pg_advisory_unlock_all()",
			"SELECT pg_advisory_unlock_all()", "SELECT pg_advisory_unlock_all() WHERE false", "BEGIN; «W»SELECT «C»; COMMIT", "SELECT «C»; ROLLBACK; SELECT «C»", "COMMIT; BEGIN",
			"EXECUTE p«N»; SELECT 1", "SELECT 1; FETCH c«N»"},
		settings: []string{"SET standard_conforming_strings = off", "SET standard_conforming_strings TO on", "SET backslash_quote = on", "SET client_min_messages = error",
			"SET search_path = public, pg_catalog", "SET quote_all_identifiers = on", "SET statement_timeout = '5s'", "SET escape_string_warning = off"},
		innocent: []string{"SELECT 1", "SELECT «S»", "SELECT 1 AS pg_advisory_lock", "SELECT 2 AS \"pg_advisory_lock(1)\"", "SELECT «S» /* pg_advisory_lock(1) */", "SELECT 1 -- pg_advisory_lock(1)",
			"SELECT query FROM pg_stat_activity WHERE query LIKE '%pg_advisory_lock(%'", "INSERT INTO t VALUES (1, 'pg_advisory_lock(1)')", "SELECT pg_advisory_lock FROM (SELECT 1 AS pg_advisory_lock) s",
			"SELECT s.pg_try_advisory_lock FROM (SELECT 1 AS pg_try_advisory_lock) s", "UPDATE t SET s = 'x' WHERE a = 98", "DELETE FROM t WHERE a = 98", "SELECT * FROM t FOR UPDATE",
			"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", "PREPARE i AS SELECT 1", "EXECUTE i", "DEALLOCATE i", "DECLARE h CURSOR WITH HOLD FOR SELECT 1", "FETCH h", "CLOSE h",
			"CREATE TEMP TABLE y«N» (a int)", "EXPLAIN ANALYZE SELECT 1", "DO $$ BEGIN PERFORM 1; END $$", "SHOW ALL", "SELECT 1/0", "SELECT nonsense", "COMMENT ON TABLE t IS 'LOCK TABLE t'",
			"SET application_name = 'pg_advisory_lock'", "SELECT $$ «S» $$", "SELECT 1; SELECT 2", "TABLE t", "VALUES ('pg_advisory_unlock(1)')", "SELECT hashtext('pg_advisory_lock')", "LISTEN pg_advisory_lock",
			"BEGIN; SELECT 1; COMMIT", "BEGIN; SAVEPOINT s; ROLLBACK TO s; ROLLBACK", "SELECT proname FROM pg_proc WHERE proname ~ '^pg_(try_)?advisory' LIMIT 2", "SELECT to_regproc('pg_advisory_unlock_all')",
			"COPY (SELECT 'pg_advisory_lock(1)') TO '/dev/null'", "SELECT E'pg_advisory_lock(1)\\'', e'\\\\'", "SELECT U&'pg\\005fadvisory_lock(1)'", "LOCK TABLE t"},
		quote: []func(*generator, string) string{
			func(_ *generator, s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" },
			func(_ *generator, s string) string {
				return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
			},
			func(_ *generator, s string) string {
				return "e'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
			},
			func(_ *generator, s string) string {
				return "U&'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
			},
			func(g *generator, s string) string { // as standard_conforming_strings = off wants it
				return "'" + strings.NewReplacer(`\`, `\\`, `'`, g.pick(`\'`, `''`)).Replace(s) + "'"
			},
			func(g *generator, s string) string {
				tag := g.pick("$$", "$a$", "$é$", "$_1$")
				return tag + strings.ReplaceAll(s, tag, "") + tag
			},
			func(g *generator, s string) string { // continued on the next line
				return g.pick("", "E", "n") + "'x'" + g.pick("\n", " \n ", "--'\n") + "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
			},
		},
		name: func(s string) string { return `"` + strings.ReplaceAll(s+"x", `"`, `""`) + `"` },
	}
	d.acquires = append([]string{"pg_advisory_lock", "pg_advisory_lock", "pg_advisory_lock_shared"}, d.tries...)
	d.all = append([]string{"pg_advisory_unlock", "pg_advisory_unlock", "pg_advisory_unlock", "pg_advisory_unlock_shared"}, d.acquires...)
	d.call = postgresCall
	return d
}

func postgresCall(g *generator, functions []string) string {
	if g.chance(1) {
		return "pg_advisory_unlock_all()"
	}
	name := g.pick(functions...)
	switch p := g.IntN(100); {
	case p < 10:
		name = g.randomCase(name)
	case p < 18:
		name = `"` + name + `"`
	case p < 24:
		name = "pg_catalog." + name
	case p < 28:
		name = `"pg_catalog"` + g.space() + "." + g.space() + name
	case p < 31:
		name = g.pick("U", "u") + `&"` + strings.Replace(name, "_", g.pick(`\005f`, `\+00005F`), 1+g.IntN(2)) + `"`
	case p < 33:
		name = `U&"` + strings.Replace(name, "_", `!005f`, 1) + `"` + g.space() + ` UESCAPE '!'`
	case p < 35:
		name = g.dialect.database + ".pg_catalog." + name
	case p < 36:
		name = strings.ToUpper(`"` + name + `"`) // no such function
	}
	keys := postgresKey(g)
	if g.chance(15) {
		keys += g.space() + "," + g.space() + postgresKey(g)
	}
	return name + g.space() + "(" + g.space() + keys + g.space() + ")"
}

func postgresKey(g *generator) string {
	n := g.IntN(3)
	switch p := g.IntN(100); {
	case g.params && p < 50:
		values := []any{int64(n), fmt.Sprint(n), n, "0" + fmt.Sprint(n), nil, []byte(fmt.Sprint(n)), " 1 "}
		return g.arg(values[min(len(values)-1, g.IntN(len(values)*2)%len(values))])
	case p < 80:
		return fmt.Sprint(n)
	default:
		return g.pick("-1", "- 1", "+1", "'1'", "'01'", "1::bigint", "1::int", "CAST(1 AS int8)", "bigint '1'", "(1)", "1+0", "NULL", "NULL::bigint", "hashtext('x')", "abs(-1)",
			"(SELECT 1)", "E'1'", "$$1$$", "4294967297", "9223372036854775807", "'-9223372036854775808'", "1.0", "01", "0x1", "1_0", "'pg_class'::regclass::oid::int", "- -1", "2147483648",
			"1::int8::int4", "'1'::int", "length('x')", "(1)::bigint", "int4 '1'", "true::int", "1 % 2", "@ -1", "1::smallint", "1::pg_catalog.int8", "\"numeric\"(1)::bigint")
	}
}

func newMySQLDialect(kind string) *dialect {
	mysql := kind == "MySQL"
	d := &dialect{
		acquires: []string{"GET_LOCK"},
		tries:    []string{"GET_LOCK"},
		all:      []string{"GET_LOCK", "GET_LOCK", "RELEASE_LOCK"},
		spaces: []string{" ", "\n", "\t", "\r\n", "\v", "\f", "/* c */", "/**/", "/* GET_LOCK('x',1) ' */", "-- it's\n", "--\t\n", "# it's\n", "/*! */", "/*!50000 */", "/* \" ` */",
			"/*+ NO_ICP(t) */", "/*M! */", "/*!999999 ' */", "/*!50505*/", "-- \r\n"},
		suffixes: []string{";", ";;", " AS x", " x", " AS `a b`", " AS 'x'", " \"x\"", " -- c", " # c", " /* c */", " /*! , «C» */", " /*!50000 , «C» */", " /*!999999 , «C» */", " /*M! , «C» */", " /*!100000 , «C» */",
			" /*!50750 , «C» */", " LIMIT 1", " LIMIT 0", " LIMIT 1 OFFSET 1", " FROM DUAL", " FROM DUAL WHERE 0", " WHERE 1", " FROM t", " FROM t WHERE a = 99", " FOR UPDATE", " UNION SELECT «C»",
			" UNION ALL SELECT NULL", " ORDER BY 1", " GROUP BY 1", " HAVING 1", " INTO @x", " FROM t LIMIT 1", ", 1", ", «C»", "+0", " IS NULL", " = 0", " DIV 2", " COLLATE utf8mb4_bin", " FROM (SELECT 1 UNION SELECT 2) s",
			" LOCK IN SHARE MODE", "|| «C»", " AND 0", " OR 1", " AS RELEASE_ALL_LOCKS"},
		templates: []string{
			"SELECT 1, «C»", "SELECT «C», «C»", "SELECT («C»)", "SELECT «C» IS NULL", "SELECT NOT «C»", "SELECT -«C»", "SELECT !«C»", "SELECT 5--«C»", "SELECT «C»*0", "SELECT IF(«C», 1, 0)", "SELECT IF(0, «C», 7)",
			"SELECT CASE WHEN «C» THEN 1 END", "SELECT COALESCE(NULL, «C»)", "SELECT (SELECT «C»)", "SELECT «C» AND «C»", "SELECT «C» OR «C»", "SELECT @a := «C»", "SELECT 1 FROM t WHERE «C»", "SELECT 1 FROM t WHERE «C» = 2",
			"SELECT * FROM (SELECT «C» AS g) s", "SELECT 1 FROM (SELECT «C» AS g) s", "WITH w AS (SELECT «C» AS g) SELECT * FROM w", "(SELECT «C»)", "(SELECT «C») UNION (SELECT 1)", "SELECT 1 UNION SELECT «C»", "SELECT «C» INTO @x",
			"DO «C»", "DO «C», «C»", "DO 1, «C»", "DO SLEEP(0), «C»", "SET @x = «C»", "SET @x = 1, @y = «C»", "SET @x := «C»", "SET SESSION max_sort_length = «C» + 1000", "INSERT INTO t(a) VALUES («C»)", "INSERT INTO t(a) SELECT «C»",
			"INSERT INTO t SET a = «C»", "REPLACE INTO t(a) VALUES («C»)", "INSERT INTO t(a) VALUES (1) ON DUPLICATE KEY UPDATE a = «C»", "UPDATE t SET a = «C»", "UPDATE t SET a = 1 WHERE «C» = 2", "DELETE FROM t WHERE a = 99 AND «C»", "DELETE FROM t WHERE «C» = 2",
			"SELECT a FROM t ORDER BY «C»", "SELECT a FROM t GROUP BY a HAVING «C»", "SELECT COUNT(*) FROM t GROUP BY «C»", "SELECT * FROM t JOIN t u ON «C»", "SELECT SUM(«C») FROM t", "SELECT CONCAT(«C», «S»)", "SELECT «S», «C», «S»",
			"EXPLAIN SELECT «C»", "EXPLAIN FORMAT=JSON SELECT «C»", "EXPLAIN SELECT * FROM (SELECT «C» AS g) s", "DESCRIBE SELECT «C»", "CREATE TEMPORARY TABLE x«N» AS SELECT «C» AS a", "CREATE TEMPORARY TABLE IF NOT EXISTS x«N» SELECT «C» AS a",
			"SELECT {fn «C»}", "SELECT { fn «C» }", "SHOW TABLES WHERE «C» = 2", "SHOW VARIABLES WHERE «C» = 2", "SELECT «C», (SELECT 1 UNION SELECT 2)", "SELECT «C» FROM t WHERE a = (SELECT 1 UNION SELECT 2)", "SELECT «C», nope", "SELECT «C», EXP(1000)",
			"SELECT SQL_NO_CACHE «C»", "SELECT DISTINCT «C»", "SELECT ALL «C»", "SELECT HIGH_PRIORITY «C»", "SELECT SQL_CALC_FOUND_ROWS «C»", "SELECT STRAIGHT_JOIN «C»", "/*! SELECT «C» */", "/*!50000 SELECT «C» */", "SELECT /*! «C» */", "SELECT 1 /*! , «C» */",
			"SELECT 1 /*!80000 , «C» */", "SELECT 1 /*!999999 , «C» */, 2", "SELECT 1 /*M! , «C» */", "SELECT 1 /*M!100000 , «C» */", "SELECT 1 /*!50000, /* ' */ «C» */", "SELECT 1 /*!999999 , /* */ «C» */", "SELECT 1 /*!100100 , «C» */", "SELECT 1 /*!110000 , «C» */",
			"SELECT 1 /*!50701 , «C» */", "SELECT 1 /*!50701, «C» *//*!80000 , «C» */", "SELECT 1 /*!0 , «C» */", "SELECT 1 /*!99, «C» */", "SELECT 1 /*!5 «C» */", "SELECT 1 /*!, 'a*/', «C», 'b'*/", "SELECT 1 # «S»\n , «C»", "SELECT 1 -- «S»\n , «C»", "SELECT 1 --«S»\n , «C»",
			"SELECT «S»«W»AS«W»x,«W»«C»", "SELECT 'a' 'b', «C»", "SELECT N'x', «C», x'61', b'1', 0x61", "SELECT _utf8mb4'x', «C»", "SELECT .5, «C»", "SELECT 1e5, «C»", "SELECT 1.«C»", "SELECT 'a\\\\', «C», 'x'", "SELECT 'a\\', «C», 'x'", "SELECT \"a\\\", «C», \"x\"", "SELECT 1 AS `a\\`, «C» AS `b`",
			"SELECT 1 AS \"a\\\", «C» AS \"b\"", "SELECT 'a''', «C»", "SELECT \"a'\", «C», \"'\"", "SELECT `«F»`('d1',1)", "SELECT @`a'`, «C», @'x\"'", "SELECT @@version, «C»", "SELECT 1 AS 1a, «C»", "SELECT 1 AS $a, «C»", "SELECT «C» «C»", "SELECT "},
		session: []string{"BEGIN", "BEGIN", "BEGIN WORK", "COMMIT", "COMMIT", "ROLLBACK", "ROLLBACK", "START TRANSACTION", "START TRANSACTION READ ONLY", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "SAVEPOINT a", "ROLLBACK TO a", "RELEASE SAVEPOINT a",
			"SELECT RELEASE_ALL_LOCKS()", "SELECT RELEASE_ALL_LOCKS()", "DO RELEASE_ALL_LOCKS()", "SELECT RELEASE_ALL_LOCKS(), «C»", "SELECT RELEASE_ALL_LOCKS() FROM t WHERE a = 99", "SELECT RELEASE_ALL_LOCKS() /*! , «C» */",
			"PREPARE p«N» FROM 'SELECT «Q»'", "PREPARE p«N» FROM 'SELECT 1'", "PREPARE p«N» FROM @q", "SET @q = CONCAT('SELECT GET_', 'LOCK(''d2'',0)')", "SET @q = 'SELECT 1'", "EXECUTE p«N»", "DEALLOCATE PREPARE p«N»", "DROP PREPARE p«N»", "PREPARE p«N» FROM 'LOCK TABLES t WRITE'", "PREPARE p«N» FROM 'BEGIN'",
			"LOCK TABLES t WRITE", "LOCK TABLES t READ", "LOCK TABLE t AS x READ LOCAL", "LOCK«W»TABLES«W»t«W»WRITE", "UNLOCK TABLES", "UNLOCK TABLES", "UNLOCK«W»TABLE", "FLUSH TABLES WITH READ LOCK", "FLUSH TABLES t WITH READ LOCK", "FLUSH TABLES t FOR EXPORT", "FLUSH LOCAL TABLES WITH READ LOCK",
			"FLUSH«W» TABLES«W» WITH READ LOCK", "FLUSH NO_WRITE_TO_BINLOG TABLE t WITH READ LOCK", "HANDLER t OPEN", "HANDLER t OPEN AS h", "HANDLER t CLOSE", "HANDLER h CLOSE", "HANDLER t READ FIRST WHERE «C»", "XA START 'd«N»'", "XA END 'd«N»'", "XA ROLLBACK 'd«N»'", "XA COMMIT 'd«N»' ONE PHASE",
			"LOCK TABLES nope READ", "BEGIN; SELECT «C»; COMMIT", "SELECT «C»; ROLLBACK; SELECT «C»", "LOCK TABLES t READ; UNLOCK TABLES", "SELECT 1; LOCK TABLES t READ", "EXECUTE p«N»; SELECT 1", "COMMIT; BEGIN", "/*! LOCK TABLES t READ */", "LOCK /*!999999 x */ TABLES t READ", "CREATE TEMPORARY TABLE z«N» (a int)",
			"TRUNCATE TABLE t", "SET autocommit = 1", "USE «D»"},
		settings: []string{"SET SESSION sql_mode = 'ANSI_QUOTES'", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "SET sql_mode = ''", "SET sql_mode = 'IGNORE_SPACE,PIPES_AS_CONCAT'", "SET sql_mode = 'ANSI'", "SET NAMES utf8mb4", "SET NAMES latin1", "SET sql_safe_updates = 0"},
		innocent: []string{"SELECT 1", "SELECT «S»", "SELECT 1 AS GET_LOCK", "SELECT 'x' AS `GET_LOCK('y',1)`", "SELECT «S» /* GET_LOCK('x',1) */", "SELECT 1 -- GET_LOCK('x',1)", "SELECT 1 # GET_LOCK('x',1)", "SELECT IS_FREE_LOCK('d1'), IS_USED_LOCK('d1')", "INSERT INTO t VALUES (1, 'GET_LOCK(''d1'',1)')",
			"SELECT s.GET_LOCK FROM (SELECT 1 AS GET_LOCK) s", "SELECT `GET_LOCK` FROM (SELECT 1 AS `GET_LOCK`) s", "SELECT * FROM t FOR UPDATE", "SELECT * FROM t LOCK IN SHARE MODE", "UPDATE t SET s = 'x' WHERE a = 98", "FLUSH TABLES t", "FLUSH STATUS", "INSERT INTO t VALUES (2, 'LOCK TABLES t WRITE')", "SHOW TABLES LIKE '%_lock'",
			"SELECT \"dq GET_LOCK('x',1)\"", "PREPARE i FROM 'SELECT 1'", "EXECUTE i", "DEALLOCATE PREPARE i", "EXPLAIN SELECT 1", "SELECT nope", "SELECT 1; SELECT 2", "BEGIN; SELECT 1; COMMIT", "SET @x = 'LOCK TABLES t WRITE'", "SELECT INSTR('GET_LOCK', '_')", "DO 1", "SHOW VARIABLES LIKE 'lock_wait_timeout'", "CREATE TEMPORARY TABLE y«N» (a int)",
			"SELECT 1 /*! + 1 */", "SELECT 1 /*!50000 + 1 */", "/*!999999 SELECT GET_LOCK('ex9',1) */ SELECT 1", "SELECT VARIABLE_NAME FROM performance_schema.session_variables WHERE VARIABLE_NAME LIKE 'get_lock%'", "DELETE FROM t WHERE a = 98 AND s <> 'GET_LOCK(1,2)'", "TRUNCATE TABLE t", "INSERT INTO t VALUES (1, 'x')"},
		quote: []func(*generator, string) string{
			func(_ *generator, s string) string {
				return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
			},
			func(_ *generator, s string) string {
				return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
			},
			func(_ *generator, s string) string {
				return `"` + strings.NewReplacer(`\`, `\\`, `"`, `""`).Replace(s) + `"`
			},
			func(_ *generator, s string) string {
				return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
			},
			func(g *generator, s string) string { // as NO_BACKSLASH_ESCAPES wants it
				return "'" + strings.ReplaceAll(s, `'`, `''`) + "'"
			},
			func(g *generator, s string) string {
				return g.pick("N", "n", "_utf8mb4", "_utf8mb4 ", "x'61' ", "'x' ", "\"x\" ") + "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
			},
		},
		name: func(s string) string { return "`" + strings.ReplaceAll(s+"x", "`", "``") + "`" },
	}
	if mysql {
		d.templates = append(d.templates, "VALUES ROW(«C»)", "EXPLAIN ANALYZE SELECT «C» FROM t", "EXPLAIN ANALYZE SELECT 1 FROM t WHERE «C»", "SELECT /*+ SET_VAR(sort_buffer_size=100000) */ «C»", "TABLE t", "CALL sys.execute_prepared_stmt('SELECT «Q»')",
			"SELECT * FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$')) j WHERE «C»")
		d.session = append(d.session, "LOCK INSTANCE FOR BACKUP", "UNLOCK INSTANCE")
	} else {
		d.templates = append(d.templates, "VALUES («C»)", "ANALYZE SELECT «C» FROM t", "ANALYZE FORMAT=JSON SELECT «C» FROM t", "EXECUTE IMMEDIATE 'SELECT «Q»'", "EXECUTE IMMEDIATE CONCAT('SELECT GET_','LOCK(''d1'',0)')",
			"SET STATEMENT max_statement_time = 10 FOR SELECT «C»", "SET STATEMENT sort_buffer_size = 100000 FOR DO «C»", "BEGIN NOT ATOMIC DO «C»; END", "BEGIN NOT ATOMIC SELECT 1; END", "IF 1 THEN DO «C»; END IF", "INSERT INTO t(a) VALUES (1) RETURNING «C»", "DELETE FROM t WHERE a = 1 RETURNING «C»",
			"FOR i IN 1..2 DO DO «C»; END FOR", "SELECT NEXTVAL(nope), «C»", "SET STATEMENT max_statement_time = 10 FOR SELECT «C», 1")
		d.session = append(d.session, "BACKUP STAGE START", "BACKUP STAGE END", "BACKUP STAGE FLUSH", "BACKUP LOCK t", "BACKUP UNLOCK", "EXECUTE p«N» USING «C»", "EXECUTE IMMEDIATE 'LOCK TABLES t READ'", "EXECUTE IMMEDIATE @q", "SET STATEMENT lock_wait_timeout = 1 FOR LOCK TABLES t READ",
			"LOCK TABLES t WRITE NOWAIT", "FLUSH TABLES WITH READ LOCK AND DISABLE CHECKPOINT", "BEGIN NOT ATOMIC START TRANSACTION; END", "START TRANSACTION READ WRITE")
	}
	d.call = mysqlCall
	return d
}

func mysqlCall(g *generator, functions []string) string {
	if g.chance(1) {
		return "RELEASE_ALL_LOCKS()"
	}
	fn := g.pick(functions...)
	name := fn
	switch p := g.IntN(100); {
	case p < 15:
		name = g.randomCase(strings.ToLower(name))
	case p < 22:
		name = strings.ToLower(name)
	case p < 30:
		name = "`" + name + "`"
	case p < 31:
		name = `"` + name + `"` // a name in ANSI_QUOTES sessions
	case p < 32:
		name = g.dialect.database + "." + name // no such function
	}
	call := name + g.space() + "(" + g.space() + mysqlKey(g)
	if fn == "GET_LOCK" {
		call += g.space() + "," + g.space() + mysqlTimeout(g)
	}
	return call + g.space() + ")"
}

func mysqlKey(g *generator) string {
	n := g.IntN(3)
	switch p := g.IntN(100); {
	case g.params && p < 50:
		values := []any{fmt.Sprint("d", n), fmt.Sprint("D", n), []byte(fmt.Sprint("d", n)), int64(n), float64(n), true, nil}
		return g.arg(values[g.IntN(len(values)*2)%len(values)])
	case p < 70:
		return fmt.Sprintf("'d%d'", n)
	default:
		return g.pick("'D1'", "\"d1\"", "'d' '1'", "_utf8mb4'd1'", "N'd1'", "x'6431'", "0x6431", "CONCAT('d','1')", "1", "01", "1.0", "1e0", "-1", "'it''s'", "'it\\'s'", "\"it's\"", "'a\\\\b'", "'a\\b'", "NULL", "''", "REPEAT('x',70)",
			"'d1 '", "' d1'", "'é'", "'e'", "LOWER('D1')", "'d1' COLLATE utf8mb4_bin", "('d1')", "(SELECT 'd1')", "CAST('d1' AS CHAR)", "@x", "TRUE", "'d\\1'", "'d%1'", "IF(1,'d1','d2')", "_latin1'd1'", "'\\d1'")
	}
}

func mysqlTimeout(g *generator) string {
	if g.params && g.chance(30) {
		values := []any{int64(0), "0", 1.5}
		return g.arg(values[g.IntN(len(values))])
	}
	if g.chance(80) {
		return g.pick("0", "1")
	}
	return g.pick("0.5", "'1'", "NULL", "1+0", "1e0", "(1)", "+1", "TRUE", "-1", ".5", "1.")
}
