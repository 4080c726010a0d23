package sqllock

import "testing"

func TestMySQLPlain(t *testing.T) {
	checkAll(t, DialectMySQL, nil, []wanted{
		{"try", literal(verbTry, "a"), []string{"SELECT GET_LOCK('a',1)", "select get_lock('a', 10);", "SELECT GET_LOCK ('a',1)", "SELECT GET_LOCK/* c */('a',1)",
			"SELECT `GET_LOCK`('a',1)", "SELECT `get_Lock` ('a',1)", "DO GET_LOCK('a',1)", "SELECT GET_LOCK(\"a\",1)", "SELECT GET_LOCK('a',-1)", "SELECT GET_LOCK('a', + 1)",
			"SELECT GET_LOCK('a',0.5)", "SELECT GET_LOCK('a',.5)", "SELECT GET_LOCK('a',?)", "SELECT GET_LOCK('a',1) AS locked", "SELECT GET_LOCK('a',1) locked",
			"SELECT GET_LOCK('a',1) AS 'locked'", "SELECT GET_LOCK('a',1) \"locked\"", "SELECT GET_LOCK('a',1) `locked`", "# c\nSELECT GET_LOCK('a',1)",
			"-- c\nSELECT GET_LOCK('a',1) -- d", "SELECT\vGET_LOCK\f('a',1)", "SELECT GET_LOCK('a',1);;", "SELECT GET_LOCK('a',1)#", "SELECT GET_LOCK('a',1) --"}},
		{"names", literal(verbTry, "Job: ä GET_LOCK("), []string{"SELECT GET_LOCK('Job: ä GET_LOCK(',1)"}},
		{"empty name", literal(verbTry, ""), []string{"SELECT GET_LOCK('',1)"}},
		{"parameter", params(verbTry, 1), []string{"SELECT GET_LOCK(?,?)", "DO GET_LOCK(?, 5)", "SELECT GET_LOCK(?, -1) AS ok"}},
		{"release", literal(verbRelease, "a"), []string{"SELECT RELEASE_LOCK('a')", "DO RELEASE_LOCK('a')", "SELECT `RELEASE_LOCK`(\"a\") AS x"}},
		{"release parameter", params(verbRelease, 1), []string{"SELECT RELEASE_LOCK(?)", "DO RELEASE_LOCK( ? )"}},
		{"release all", statement{verb: verbReleaseAll}, []string{"SELECT RELEASE_ALL_LOCKS()", "DO RELEASE_ALL_LOCKS ( ) ;", "SELECT release_all_locks() AS n"}},
	})
}

func TestMySQLCalls(t *testing.T) {
	checkAll(t, DialectMySQL, nil, []wanted{
		{"not plain", mayLock, []string{"SELECT GET_LOCK(NULL,1)", "SELECT GET_LOCK('a',NULL)", "SELECT GET_LOCK('a','1')", "SELECT GET_LOCK('a',1e0)", "SELECT GET_LOCK('a')",
			"SELECT GET_LOCK('a' 'b',1)", "SELECT GET_LOCK('a''b',1)", "SELECT GET_LOCK(\"a\"\"b\",1)", `SELECT GET_LOCK('a\'b',1)`, "SELECT GET_LOCK(N'a',1)", "SELECT GET_LOCK(_utf8'a',1)",
			"SELECT GET_LOCK(0x41,1)", "SELECT GET_LOCK(x'41',1)", "SELECT GET_LOCK(5,1)", "SELECT GET_LOCK(@a,1)", "SELECT GET_LOCK(CONCAT('a'),1)", "SELECT GET_LOCK('a',1+1)",
			"SELECT GET_LOCK('a',1) FROM t", "SELECT GET_LOCK('a',1) FROM DUAL", "SELECT GET_LOCK('a',1) LIMIT 1", "SELECT GET_LOCK('a',1) INTO @x", "SELECT GET_LOCK('a',1), 2",
			"SELECT GET_LOCK('a',1) = 1", "SELECT ALL GET_LOCK('a',1)", "SELECT /*! ALL */ GET_LOCK('a',1)", "SELECT DISTINCT GET_LOCK('a',1)", "DO GET_LOCK('a',1), 1",
			"DO GET_LOCK('a',1) AS x", "(SELECT GET_LOCK('a',1))", "SELECT test.GET_LOCK('a',1)", "SELECT `test` . `GET_LOCK` ('a',1)", "SELECT \"GET_LOCK\"('a',1)",
			"SELECT {fn GET_LOCK('a',1)}", "SELECT GET_LOCK('a',1) AS", "SELECT GET_LOCK('a',1) a b", "SELECT GET_LOCK('a',1), RELEASE_LOCK('a')"}},
		{"anywhere", mayLock, []string{"SET @x = GET_LOCK('a',1)", "SELECT @x := GET_LOCK('a',1)", "INSERT INTO t SELECT GET_LOCK(a,1) FROM u", "INSERT INTO t VALUES (GET_LOCK('a',1))",
			"VALUES ROW(GET_LOCK('a',1))", "SELECT * FROM t WHERE GET_LOCK(id,0)", "UPDATE t SET a = GET_LOCK('a',1)", "DELETE FROM t WHERE GET_LOCK('a',1) RETURNING a",
			"SELECT IF(0,GET_LOCK('a',1),7)", "EXPLAIN SELECT GET_LOCK('e',1)", "CREATE TABLE x SELECT GET_LOCK('a',1)", "CALL p(GET_LOCK('a',1))", "SELECT 1 # c\n, GET_LOCK('a',1)",
			"SELECT 1 --x\n, GET_LOCK('a',1)", "SELECT 1 /* /* */, GET_LOCK('a',1)", "SELECT 1 -- x\r\n, GET_LOCK('a',1)", "SELECT @`a(`, @'b(', @\"c(\", GET_LOCK('a',1)",
			"SELECT 'a''', GET_LOCK('a',1)", "SELECT `a```, GET_LOCK('a',1)", "SELECT 1; SELECT GET_LOCK('a',1)", "SELECT 1e, .5, 1., 0x1F, 1a, GET_LOCK('a',1)",
			"(SELECT GET_LOCK('u',1)) UNION (SELECT 1)", "SELECT 1--GET_LOCK('a',1)", "SELECT 'unterminated'; SELECT GET_LOCK('x',1); SELECT 'unterminated"}},
		{"releases", freesLock, []string{"SELECT RELEASE_LOCK(a) FROM t", "SELECT RELEASE_LOCK('a'), RELEASE_LOCK('b')", "SET @x = RELEASE_LOCK('a')", "SELECT RELEASE_ALL_LOCKS() FROM t",
			"SELECT RELEASE_LOCK(NULL)", "SELECT 1; DO RELEASE_LOCK('a')", "DO RELEASE_LOCK('a'), RELEASE_LOCK('b')"}},
		{"with a transaction", statement{may: classLocks, opens: true}, []string{"BEGIN; SELECT GET_LOCK('a',1)"}},
		{"no call", nothing, []string{"SELECT 1 AS GET_LOCK", "SELECT GET_LOCK FROM t", "SELECT 'GET_LOCK(''a'',1)'", "SELECT \"dq GET_LOCK('x',1)\"", "SELECT 'x' AS `GET_LOCK('y',1)`",
			"SELECT 1 /* , GET_LOCK('x',1) */", "SELECT 1 # , GET_LOCK('x',1)", "SELECT 1 -- , GET_LOCK('x',1)", "SELECT 1 --\t, GET_LOCK('x',1)", "SELECT 1 --\x01, GET_LOCK('x',1)",
			"SELECT 1 # c\r , GET_LOCK('x',1)", "SELECT IS_FREE_LOCK('a'), IS_USED_LOCK('a')", "SELECT MY_GET_LOCK('a',1), GET_LOCKS(1)", "SELECT GET_LOCK$('a',1)",
			"SELECT 1GET_LOCK('a',1)", "SELECT a_name_that_is_longer_than_any_lock_function('a',1)", "SELECT GÉT_LOCK('x',1)", "SELECT GET_LOC\u212a('x',1)", "SELECT RELEA\u017fE_LOCK('x')", "SELECT @GET_LOCK", "SELECT @@GET_LOCK"}},
	})
}

// A backslash may escape or not, and "x" may be a string or a name.
func TestMySQLBackslashes(t *testing.T) {
	checkAll(t, DialectMySQL, nil, []wanted{
		{"a call in one reading", mayLock, []string{`SELECT 'it\'s GET_LOCK(', GET_LOCK('bs',1)`, `SELECT '\', GET_LOCK('a',1) # '`, `SELECT '\\', GET_LOCK('a',1)`,
			`SELECT "\", GET_LOCK('a',1) # "`, `SELECT GET_LOCK('a\b',1)`, `SELECT '\'; SELECT GET_LOCK("a",1); SELECT '`}},
		{"harmless in every reading", nothing, []string{`SELECT 'it\'s'`, `SELECT 'C:\\dir\n'`, `SELECT "it\"s GET_LOCK('x',1)"`, `SELECT 'GET_LOCK(\'a\',1)'`, `SELECT 'it\'s GET_LOCK('`,
			"SELECT `a\\`, 'GET_LOCK(1)'", `SELECT '%\_%' ESCAPE '\\'`}},
		{"the same in every reading", literal(verbTry, "a"), []string{`SELECT GET_LOCK('a',1) # \`, "SELECT GET_LOCK('a',1) AS `\\`"}},
	})
}

func TestMySQLExecutableComments(t *testing.T) {
	checkAll(t, DialectMySQL, nil, []wanted{
		{"a call in some servers", mayLock, []string{"/*!999999 SELECT GET_LOCK('x',1) */ SELECT 1", "SELECT 1 /*!80000 , GET_LOCK('x',1) */", "SELECT 1 /*M! , GET_LOCK('m',1) */",
			"SELECT 1 /*M!100100 , GET_LOCK('m',1) */", "SELECT 1 /*!50701 , GET_LOCK('x',1) */", "SELECT GET_LOCK /*!99999 x */ ('a',1)", "/*!99999 '*/ SELECT GET_LOCK('x',1) -- '",
			"/*!99999 /* a */ x */ SELECT GET_LOCK('x',1)", "SELECT 1 /*!50000 /*!99999 , 5 */ , GET_LOCK('x',1) */"}},
		{"a call in every server", mayLock, []string{"SELECT 1 /*! , GET_LOCK('x',1) */", "SELECT 1 /*!40101 , GET_LOCK('x',1) */", "/*! SELECT GET_LOCK('x',1) */",
			"/*!50110 SELECT */ GET_LOCK('x',1)", "SELECT 1 /*! -- c */\n , GET_LOCK('x',1) */", "SELECT 1 /*! '*/', GET_LOCK('x',1) */", "SELECT GET_LOCK/*!*/('x',1)"}},
		{"no call", nothing, []string{"SELECT 1 /*m! , GET_LOCK('m',1) */", "SELECT 1 /* ! , GET_LOCK('m',1) */", "SELECT /*+ HINT(GET_LOCK(1)) */ 1", "/*!40101 SET NAMES utf8 */",
			"/*!80000 SET SESSION information_schema_stats_expiry=0 */;", "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `x` /*!40100 DEFAULT CHARACTER SET utf8mb4 */ /*!80016 DEFAULT ENCRYPTION='N' */",
			"SELECT 1 /*!80000 a */ /*!80001 b */ FROM t", "SELECT '/*! GET_LOCK(1) */'"}},
		{"tables in some servers", statement{may: classTables}, []string{"/*!80000 LOCK TABLES t WRITE */", "/*M! FLUSH TABLES WITH READ LOCK */"}},
		{"tables in every server", statement{verb: verbLockTables, object: "t"}, []string{"/*!40000 LOCK TABLES t WRITE */", "LOCK /*! TABLES */ t /*!50000 READ */"}},
		{"anybody's guess", statement{may: classLocks | classTables}, []string{"/*!80000 LOCK */ /*!80001 x */ TABLES t WRITE",
			"SELECT 1 /*!80000 , GET_LOCK */ /*!80001 x */ ('a',1)"}},
		{"anybody's guess", statement{may: allClasses}, []string{"/*!80000 EXECUTE */ /*!80001 IMMEDIATE */ @x"}},
		{"nothing to guess", nothing, []string{"/*!80000 SET */ /*!80001 NAMES */ utf8mb4"}},
	})
}

func TestMySQLTables(t *testing.T) {
	lock := func(v verb, object string) statement { return statement{verb: v, object: object} }
	checkAll(t, DialectMySQL, nil, []wanted{
		{"lock", lock(verbLockTables, "t"), []string{"LOCK TABLES t WRITE", "lock table t read", "LOCK TABLES t READ LOCAL, u WRITE", "LOCK TABLES t AS x READ", "LOCK TABLE t WRITE WAIT 5",
			"LOCK TABLES t WRITE CONCURRENT;", "LOCK /* c */ TABLES -- d\n t READ", "FLUSH TABLES t WITH READ LOCK", "FLUSH TABLE t, u WITH READ LOCK", "FLUSH LOCAL TABLES t WITH READ LOCK",
			"FLUSH NO_WRITE_TO_BINLOG TABLES t, u, v, w, x, y, z, a, b, c, d, e, f, g, h, i, j, k WITH READ LOCK", "FLUSH TABLES t FOR EXPORT", "flush local table t, u for export"}},
		{"lock", lock(verbLockTables, "`a b`.`c`"), []string{"LOCK TABLES `a b`.`c` WRITE", "FLUSH TABLES `a b`.`c` WITH READ LOCK"}},
		{"lock", lock(verbLockTables, "db . t"), []string{"LOCK TABLES db . t WRITE"}},
		{"global", lock(verbLockGlobal, ""), []string{"FLUSH TABLES WITH READ LOCK", "flush table with read lock;", "FLUSH LOCAL TABLES WITH READ LOCK",
			"FLUSH NO_WRITE_TO_BINLOG TABLES WITH READ LOCK", "FLUSH TABLES WITH READ LOCK AND DISABLE CHECKPOINT", "FLUSH /* c */ TABLES WITH READ LOCK"}},
		{"unlock", lock(verbUnlockTables, ""), []string{"UNLOCK TABLES", "unlock table;"}},
		{"instance", lock(verbLockInstance, ""), []string{"LOCK INSTANCE FOR BACKUP"}},
		{"unlock instance", lock(verbUnlockInstance, ""), []string{"UNLOCK INSTANCE"}},
		{"stage", lock(verbBackup, "STAGE"), []string{"BACKUP STAGE START", "backup stage block_commit"}},
		{"end of stages", lock(verbBackupEnd, "STAGE"), []string{"BACKUP STAGE END"}},
		{"backup lock", lock(verbBackup, "db.t"), []string{"BACKUP LOCK db.t"}},
		{"backup unlock", lock(verbBackupEnd, ""), []string{"BACKUP UNLOCK"}},
		{"open", lock(verbHandlerOpen, "t"), []string{"HANDLER t OPEN", "handler db.t open", "HANDLER `db` . `t` OPEN", "HANDLER u OPEN AS t", "HANDLER db.u OPEN t", "HANDLER u OPEN AS `t`"}},
		{"close", lock(verbHandlerClose, "t"), []string{"HANDLER t CLOSE", "HANDLER `t` CLOSE;"}},
		{"unclear", statement{may: classTables}, []string{"FLUSH HOSTS, TABLES WITH READ LOCK", "FLUSH TABLES WITH WRITE LOCK", "FLUSH x FOR EXPORT", "LOCK x", "BACKUP x",
			"SELECT 1; LOCK TABLES t READ", "LOCK TABLES t READ; SELECT 1", "FLUSH TABLES WITH READ LOCK; SELECT 1", "BACKUP STAGE START; SELECT 1"}},
		{"several, freeing", statement{frees: classTables}, []string{"UNLOCK TABLES; SELECT 1", "SELECT 1; UNLOCK INSTANCE", "UNLOCK x", "BACKUP STAGE END; SELECT 1"}},
		{"several handlers", statement{may: classHandler}, []string{"HANDLER t OPEN; HANDLER u OPEN"}},
		{"several handlers", statement{frees: classHandler}, []string{"HANDLER t CLOSE; HANDLER u CLOSE"}},
		{"nothing", nothing, []string{"FLUSH TABLES", "FLUSH TABLES t, u", "FLUSH PRIVILEGES", "FLUSH LOCAL LOGS", "HANDLER t READ FIRST", "HANDLER t READ i >= (1) LIMIT 2",
			"SELECT * FROM t LOCK IN SHARE MODE", "SHOW OPEN TABLES"}},
	})
}

func TestMySQLDynamic(t *testing.T) {
	checkAll(t, DialectMySQL, nil, []wanted{
		{"prepares a lock", statement{marks: classLocks}, []string{"PREPARE p FROM 'SELECT GET_LOCK(''pp'',1)'", `prepare p from "SELECT GET_LOCK('pp',1)"`, "PREPARE p FROM 'DO RELEASE_LOCK(?)'",
			"PREPARE p FROM 'SELECT * FROM t WHERE GET_LOCK(a,1)';"}},
		{"prepares others", statement{marks: classTables}, []string{"PREPARE p FROM 'LOCK TABLES t READ'", "PREPARE p FROM 'FLUSH TABLES WITH READ LOCK'"}},
		{"prepares others", statement{marks: classTx}, []string{"PREPARE p FROM 'START TRANSACTION'", "PREPARE p FROM 'COMMIT'"}},
		{"prepares others", statement{marks: classHandler}, []string{"PREPARE p FROM 'HANDLER t OPEN'"}},
		{"prepares anything", statement{marks: allClasses}, []string{"PREPARE p FROM @sql", "PREPARE p FROM CONCAT('SELECT GET_','LOCK(1,1)')", `PREPARE p FROM 'SELECT \'x\''`,
			"PREPARE p FROM 'SELECT ' '1'", "PREPARE p FROM N'SELECT 1'", "PREPARE p FROM 'EXECUTE IMMEDIATE @x'", "PREPARE p FROM 'EXECUTE q'"}},
		{"runs a lock", mayLock, []string{"EXECUTE IMMEDIATE 'DO GET_LOCK(''a'',1)'", `EXECUTE IMMEDIATE "SELECT GET_LOCK(?,1)" USING 'a'`}},
		{"runs a release", freesLock, []string{"EXECUTE IMMEDIATE 'DO RELEASE_LOCK(''a'')'"}},
		{"runs a transaction", statement{opens: true}, []string{"EXECUTE IMMEDIATE 'BEGIN'"}},
		{"runs anything", statement{may: allClasses}, []string{"EXECUTE IMMEDIATE @x", "EXECUTE IMMEDIATE CONCAT('SELECT GET_','LOCK(1,1)')", "CALL sys.execute_prepared_stmt('SELECT 1')",
			"call `sys`.`EXECUTE_PREPARED_STMT`(@x)"}},
		{"runs what is prepared", statement{runs: true}, []string{"EXECUTE p", "execute p using @a, @b"}},
		{"nothing", nothing, []string{"PREPARE p FROM 'SELECT 1'", "PREPARE p FROM 'SELECT ''GET_LOCK(1,1)'''", "EXECUTE IMMEDIATE 'SELECT 1'", "DEALLOCATE PREPARE p", "DROP PREPARE p",
			"CALL p(1)", "PREPARE p FROM 'SELECT GET_LOCK'"}},
		{"several", statement{marks: classLocks, runs: true}, []string{"PREPARE p FROM 'SELECT GET_LOCK(1,1)'; EXECUTE p"}},
		{"SET STATEMENT", mayLock, []string{"SET STATEMENT max_statement_time=1 FOR SELECT GET_LOCK('a',1)", "set statement a=1, b=(2) for do get_lock('a',1)", "SET STATEMENT a=GET_LOCK('a',1) FOR SELECT 1",
			"SET STATEMENT a=1 FOR EXECUTE IMMEDIATE 'DO GET_LOCK(1,1)'"}},
		{"SET STATEMENT", statement{may: classTables}, []string{"SET STATEMENT a=1 FOR LOCK TABLES t READ", "SET STATEMENT a=1 FOR FLUSH TABLES WITH READ LOCK"}},
		{"SET STATEMENT", statement{frees: classLocks}, []string{"SET STATEMENT a=1 FOR SELECT RELEASE_LOCK('a')"}},
		{"SET STATEMENT", statement{opens: true}, []string{"SET STATEMENT a=1 FOR START TRANSACTION"}},
		{"SET STATEMENT", statement{runs: true}, []string{"SET STATEMENT a=1 FOR EXECUTE p"}},
		{"SET STATEMENT", nothing, []string{"SET STATEMENT a=1 FOR SELECT * FROM t FOR UPDATE", "SET STATEMENT a=1 FOR"}},
	})
}

func TestMariaDBCompound(t *testing.T) {
	checkAll(t, DialectMySQL, nil, []wanted{
		{"calls", mayLock, []string{"BEGIN NOT ATOMIC DO GET_LOCK('x',1); END", "IF 1 THEN DO GET_LOCK('x',1); END IF", "CASE 1 WHEN 1 THEN DO GET_LOCK('x',1); END CASE",
			"LOOP DO GET_LOCK('x',1); END LOOP", "FOR i IN 1..2 DO DO GET_LOCK('x',1); END FOR", "WHILE 1 DO SELECT GET_LOCK('x',1); END WHILE", "REPEAT DO GET_LOCK('x',1); UNTIL 1 END REPEAT",
			"BEGIN DO GET_LOCK('x',1); END", "DECLARE x INT; BEGIN DO GET_LOCK('x',1); END", "SELECT 1; BEGIN NOT ATOMIC DO GET_LOCK('x',1); END"}},
		{"dynamic", statement{may: allClasses}, []string{"BEGIN NOT ATOMIC EXECUTE IMMEDIATE @x; END", "BEGIN NOT ATOMIC PREPARE p FROM @x; EXECUTE p; END", "IF 1 THEN EXECUTE p; END IF"}},
		{"tables", statement{may: classTables}, []string{"BEGIN NOT ATOMIC FLUSH TABLES WITH READ LOCK; END", "IF 1 THEN LOCK TABLES t READ; END IF", "BEGIN NOT ATOMIC UNLOCK TABLES; END"}},
		{"handler", statement{may: classHandler}, []string{"BEGIN NOT ATOMIC HANDLER t OPEN; END"}},
		{"transaction", statement{may: classTx}, []string{"BEGIN NOT ATOMIC START TRANSACTION; END", "BEGIN NOT ATOMIC XA START 'a'; END", "BEGIN NOT ATOMIC COMMIT AND CHAIN; END", "BEGIN NOT ATOMIC SELECT 1; END; BEGIN",
			"BEGIN NOT ATOMIC BEGIN SELECT 1; END; END; BEGIN;", "IF 1 THEN SELECT 1; END IF; BEGIN WORK; SELECT 1"}},
		{"frees", freesLock, []string{"BEGIN NOT ATOMIC DO RELEASE_LOCK('a'); END"}},
		{"nothing", nothing, []string{"BEGIN NOT ATOMIC SELECT 1; INSERT INTO t VALUES (1); COMMIT; END", "IF 1 THEN SELECT 1; END IF", "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK; SELECT 1; END",
			"BEGIN NOT ATOMIC SELECT * FROM t LOCK IN SHARE MODE; END"}},
	})
}

// What the body of a routine does is not done when the routine is made.
func TestMySQLRoutines(t *testing.T) {
	checkAll(t, DialectMySQL, nil, []wanted{
		{"nothing", nothing, []string{"CREATE PROCEDURE p() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; END; START TRANSACTION; UPDATE t SET a=1; COMMIT; END",
			"CREATE DEFINER=`a`@`%` PROCEDURE p() BEGIN PREPARE s FROM @x; EXECUTE s; END", "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN IF NEW.a THEN SET NEW.b = 1; END IF; END",
			"CREATE FUNCTION f() RETURNS INT BEGIN WHILE 1 DO SELECT CASE 1 WHEN 1 THEN 2 END; END WHILE; CASE 1 WHEN 1 THEN BEGIN END; END CASE; START TRANSACTION; END",
			"CREATE PROCEDURE p() IF 1 THEN SELECT 1; END IF", "ALTER EVENT e DO BEGIN START TRANSACTION; COMMIT; END", "CREATE TABLE event (begin INT, end INT)"}},
		{"after the body", statement{opens: true}, []string{"CREATE PROCEDURE p() BEGIN SELECT 1; END; START TRANSACTION"}},
		{"after the body", statement{may: classTables}, []string{"CREATE PROCEDURE p() BEGIN IF 1 THEN SELECT 1; END IF; END; LOCK TABLES t READ"}},
		{"after no body", statement{may: allClasses}, []string{"CREATE FUNCTION f(begin INT) RETURNS INT RETURN 1; LOCK TABLES t READ"}},
		{"calls", mayLock, []string{"CREATE PROCEDURE p() BEGIN DO GET_LOCK('a',1); END"}},
	})
}
