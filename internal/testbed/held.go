package testbed

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"
)

// heldPostgres lists this database's advisory locks. A bigint key comes as two unsigned halves.
const heldPostgres = `
SELECT mode || CASE objsubid
	WHEN 1 THEN ' bigint ' || ((classid::bigint << 32) | objid::bigint)
	ELSE ' pair ' || classid::int8::bit(32)::int4 || ',' || objid::int8::bit(32)::int4
	END || ' pid ' || pid
FROM pg_catalog.pg_locks
WHERE locktype = 'advisory' AND granted AND pid <> pg_catalog.pg_backend_pid()
	AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
ORDER BY 1`

// heldMySQL lists metadata locks that outlive their statement. Intention locks are by-products of the others.
// An open transaction's tables are among them: nothing tells them from LOCK TABLES ... READ on MariaDB.
const heldMySQL = `
SELECT CONCAT_WS(' ', m.OBJECT_TYPE, m.LOCK_TYPE, NULLIF(CONCAT_WS('.', m.OBJECT_SCHEMA, m.OBJECT_NAME), ''), 'id', t.PROCESSLIST_ID)
FROM performance_schema.metadata_locks m JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID
WHERE m.LOCK_STATUS = 'GRANTED' AND m.LOCK_DURATION <> 'STATEMENT' AND m.LOCK_TYPE <> 'INTENTION_EXCLUSIVE'
	AND m.OBJECT_TYPE IN ('USER LEVEL LOCK', 'TABLE', 'GLOBAL', 'COMMIT', 'BACKUP', 'BACKUP LOCK')
	AND NOT m.OBJECT_SCHEMA <=> 'performance_schema' -- others who look
	AND t.PROCESSLIST_ID <> CONNECTION_ID()`

// Held looks from outside and returns every session lock that a session holds now:
//
//	PostgreSQL       "ExclusiveLock bigint 42 pid 123", "ShareLock pair 1,2 pid 123": this database's
//	MySQL, MariaDB   "USER LEVEL LOCK EXCLUSIVE name id 7", "TABLE SHARED_NO_READ_WRITE db.t id 7", ...
//
// On MySQL and MariaDB it sees the whole server's sessions, or those of the database that [Server.NewDatabase] made.
// A transaction that is still open shows as the tables that it has used.
func (s *Server) Held(t testing.TB) []string {
	t.Helper()
	db, err := s.direct().open()
	if err != nil {
		t.Fatalf("testbed: %v", err)
	}
	defer db.Close()
	return s.direct().heldNow(t, db)
}

// AwaitFree waits until no session lock is held, and fails t with a list of those that still are.
func (s *Server) AwaitFree(t testing.TB, within time.Duration) {
	t.Helper()
	db, err := s.direct().open()
	if err != nil {
		t.Fatalf("testbed: %v", err)
	}
	defer db.Close()
	for deadline := time.Now().Add(within); ; time.Sleep(2 * time.Millisecond) {
		held := s.direct().heldNow(t, db)
		if len(held) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still held after %v:\n\t%s", within, strings.Join(held, "\n\t"))
		}
	}
}

func (s *Server) heldNow(t testing.TB, db *sql.DB) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	held, err := s.held(ctx, db)
	if err != nil {
		t.Fatalf("testbed: what is held: %v", err)
	}
	return held
}

func (s *Server) held(ctx context.Context, db *sql.DB) (held []string, err error) {
	query, args := s.heldQuery()
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var lock string
		if err := rows.Scan(&lock); err != nil {
			return nil, err
		}
		held = append(held, lock)
	}
	return held, rows.Err()
}

func (s *Server) heldQuery() (query string, args []any) {
	switch {
	case !s.isMySQL():
		return heldPostgres, nil
	case s.wide:
		return heldMySQL + " ORDER BY 1", nil
	default:
		return heldMySQL + " AND t.PROCESSLIST_DB = ? ORDER BY 1", []any{s.database}
	}
}
