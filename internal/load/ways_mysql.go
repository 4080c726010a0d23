package load

import (
	"database/sql"
	"database/sql/driver"
)

const (
	myLock   = "SELECT GET_LOCK(?, 5)"
	myUnlock = "SELECT RELEASE_LOCK(?)"
)

// FLUSH TABLES WITH READ LOCK is not among the ways: as long as it is held no one else writes, so that there would be no
// throughput to look at.
var mysqlDialect = &dialect{
	setup: []string{
		"DROP TABLE IF EXISTS load_t", "CREATE TABLE load_t (a INT PRIMARY KEY, n INT NOT NULL DEFAULT 0, s VARCHAR(100) NOT NULL) ENGINE=InnoDB",
		"DROP FUNCTION IF EXISTS load_lock", "CREATE FUNCTION load_lock(k VARCHAR(64)) RETURNS INT DETERMINISTIC READS SQL DATA RETURN GET_LOCK(k, 5)",
	},
	filler: "INSERT INTO load_t (a, s) VALUES (%d, 'a row')",
	held: `SELECT IF(m.OBJECT_TYPE = 'USER LEVEL LOCK', m.OBJECT_NAME, CONCAT(m.OBJECT_NAME, '/', t.PROCESSLIST_ID))
		FROM performance_schema.metadata_locks m JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID
		WHERE m.LOCK_STATUS = 'GRANTED' AND (m.OBJECT_TYPE = 'USER LEVEL LOCK' AND m.OBJECT_NAME LIKE 'load.%'
		OR m.OBJECT_TYPE = 'TABLE' AND m.OBJECT_NAME LIKE 'load\_table%' AND m.OBJECT_SCHEMA = DATABASE() AND m.LOCK_DURATION <> 'STATEMENT')`,
	sessions: "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()",
	point:    "SELECT s FROM load_t WHERE a = ?", update: "UPDATE load_t SET n = n + 1 WHERE a = ?", try: "SELECT GET_LOCK(?, 0)", unlock: myUnlock,
	ways: []way{
		{"Exec", "", 1, 1, exec(myLock)},
		{"Exec of DO", "", 1, 1, exec("DO GET_LOCK(?, 5)")},
		{"Exec of a literal", "", 1, 1, exec("SELECT GET_LOCK({key}, 5)")},
		{"QueryRow, try", "", 1, 1, query("SELECT GET_LOCK(?, 0)")},
		{"Conn", "", 1, 1, onConn(myLock)},
		{"nested", "", 1, 1, onConn(myLock, myLock, myLock)},
		{"nested, released once less", "", 1, 1, onConn(myLock, myLock, myUnlock)},
		{"two names, one released", "", 1, 1, onConn(myLock, "SELECT GET_LOCK('work.other.{n}', 5)", "SELECT RELEASE_LOCK('work.other.{n}')")},
		{"unlock on another connection", "", 2, 2, misplaced(myLock, myUnlock)},
		{"Tx, committed", "", 1, 1, inTx((*sql.Tx).Commit, myLock)},
		{"Tx, rolled back", "", 1, 1, inTx((*sql.Tx).Rollback, myLock)},
		{"Prepare", "", 1, 1, prepared(myLock)},
		{"PREPARE of a variable", "", 1, 1, onConn("!SET @load = CONCAT('SELECT GET_', 'LOCK(', QUOTE({key}), ', 5)')", "!PREPARE load_p FROM @load", "EXECUTE load_p")},
		{"function", "", 1, 1, query("SELECT load_lock(?)")},
		{"in an expression", "", 1, 1, query("SELECT IF(GET_LOCK(?, 5), 'a', 'b')")},
		{"SET", "", 1, 1, exec("SET @load = GET_LOCK({key}, 5)")},
		{"error after the grant", "", 1, 1, onConn("~SELECT GET_LOCK(?, 5), (SELECT a FROM load_t)")},
		{"several statements", "", 1, 1, exec("SELECT 1; SELECT GET_LOCK({key}, 5); SELECT 2")},
		{"rows not read to the end", "", 1, 1, partlyRead("SELECT GET_LOCK(?, 5), a FROM load_t")},
		{"START TRANSACTION as text", "", 1, 1, onConn("!START TRANSACTION", myLock)},
		{"table, open transaction", "", 1, 1, onTable("!START TRANSACTION", "SELECT * FROM load_table_{n}")},
		{"table, LOCK TABLES READ", "", 1, 1, onTable("!LOCK TABLES load_table_{n} READ")},
		{"table, LOCK TABLES WRITE", "", 1, 1, onTable("!LOCK TABLES load_table_{n} WRITE")},
		{"table, HANDLER", "", 1, 1, onTable("!HANDLER load_table_{n} OPEN")},
		{"cancelled context", "", 0, 1, cancelled("SELECT GET_LOCK({key}, 5), SLEEP(0.2)")},
		{"deadline in a Tx", "", 0, 1, deadline(myLock, "SELECT SLEEP(0.2)")},
		{"panic", "", 1, 1, panics(myLock)},
		{"driver.ErrBadConn", "", 1, 1, badConn(myLock)},
		{"Exec by Raw", "", 1, 1, raw(func(a *attempt, dc driver.Conn) error {
			_, err := dc.(driver.ExecerContext).ExecContext(a.ctx, a.text("DO GET_LOCK({key}, 5)"), nil)
			return err
		})},
	},
}

// onTable locks a table that only this goroutine uses: it may lock it again as soon as the session has ended, so that the
// session is part of what the lock is called.
func onTable(texts ...string) func(*attempt) error {
	return func(a *attempt) error {
		c, err := a.db.Conn(a.ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		var session string
		if err := c.QueryRowContext(a.ctx, "SELECT CONNECTION_ID()").Scan(&session); err != nil {
			return err
		}
		a.expect(a.text("load_table_{n}/") + session)
		err = a.send(a.ctx, c, texts)
		a.returning()
		return err
	}
}
