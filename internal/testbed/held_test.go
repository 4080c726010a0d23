package testbed

import (
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"
)

// heldCase is what a session does and how each lock that it then holds begins in Held.
type heldCase struct{ does, want []string }

var heldCases = map[string][]heldCase{
	KindPostgres: {
		{[]string{"SELECT pg_advisory_lock(42)"}, []string{"ExclusiveLock bigint 42 pid "}},
		{[]string{"SELECT pg_advisory_lock_shared(-9223372036854775808)"}, []string{"ShareLock bigint -9223372036854775808 pid "}},
		{[]string{"SELECT pg_advisory_lock(-1, 2147483647)"}, []string{"ExclusiveLock pair -1,2147483647 pid "}},
		{[]string{"BEGIN", "SELECT pg_advisory_xact_lock(1)"}, []string{"ExclusiveLock bigint 1 pid "}},
		{[]string{"BEGIN", "LOCK TABLE t"}, nil},
	},
	KindMariaDB: {
		{[]string{"DO GET_LOCK('a name', 0)"}, []string{"USER LEVEL LOCK SHARED_NO_WRITE a name id "}},
		{[]string{"LOCK TABLES t WRITE"}, []string{"TABLE SHARED_NO_READ_WRITE "}},
		{[]string{"LOCK TABLES t READ"}, []string{"TABLE SHARED_READ "}},
		{[]string{"FLUSH TABLES t WITH READ LOCK"}, []string{"TABLE SHARED_NO_WRITE "}},
		{[]string{"HANDLER t OPEN"}, []string{"TABLE SHARED_READ "}},
		{[]string{"BEGIN", "INSERT INTO t VALUES (1)"}, []string{"TABLE SHARED_WRITE "}},
		{[]string{"INSERT INTO t VALUES (1)"}, nil},
	},
	KindMySQL: {
		{[]string{"DO GET_LOCK('a name', 0)"}, []string{"USER LEVEL LOCK EXCLUSIVE a name id "}},
		{[]string{"LOCK TABLES t WRITE"}, []string{"TABLE SHARED_NO_READ_WRITE "}},
		{[]string{"LOCK TABLES t READ"}, []string{"TABLE SHARED_READ_ONLY "}},
		{[]string{"FLUSH TABLES t WITH READ LOCK"}, []string{"TABLE SHARED_NO_WRITE "}},
		{[]string{"HANDLER t OPEN"}, []string{"TABLE SHARED "}},
		{[]string{"BEGIN", "INSERT INTO t VALUES (1)"}, []string{"TABLE SHARED_WRITE "}},
		{[]string{"INSERT INTO t VALUES (1)"}, nil},
	},
}

// heldByAll has what stops every other session too, and so needs a private server: see TestPrivateServer.
var heldByAll = map[string][]heldCase{
	KindMariaDB: {
		{[]string{"FLUSH TABLES WITH READ LOCK"}, []string{"BACKUP BACKUP_FTWRL1 id "}},
		{[]string{"BACKUP STAGE START"}, []string{"BACKUP BACKUP_BLOCK_DDL id "}},
	},
	KindMySQL: {
		{[]string{"FLUSH TABLES WITH READ LOCK"}, []string{"COMMIT SHARED id ", "GLOBAL SHARED id "}},
		{[]string{"LOCK INSTANCE FOR BACKUP"}, []string{"BACKUP LOCK SHARED id "}},
	},
}

func TestHeld(t *testing.T) {
	eachKind(t, func(t *testing.T, kind kind) {
		s := kind.shared(t).NewDatabase(t)
		execute(t, s.Outside(t), "CREATE TABLE t (a int)")
		for _, c := range heldCases[s.Kind] {
			c.check(t, s)
		}
	})
}

// Each database sees its own sessions' locks.
func TestHeldPerDatabase(t *testing.T) {
	lock := map[string]string{KindPostgres: "SELECT pg_advisory_lock(1)", KindMySQL: "DO GET_LOCK('mine', 0)", KindMariaDB: "DO GET_LOCK('mine', 0)"}
	eachKind(t, func(t *testing.T, kind kind) {
		s := kind.shared(t)
		mine, other := s.NewDatabase(t), s.NewDatabase(t)
		conn, end := session(t, mine)
		defer end()
		execute(t, conn, lock[s.Kind])
		if held := other.Held(t); len(held) != 0 {
			t.Errorf("another database: held = %q", held)
		}
		if held := mine.Via(NewProxy(t, s.Addr())).Held(t); len(held) != 1 {
			t.Errorf("held = %q", held)
		}
	})
}

func TestAwaitFreeSaysWhatIsHeld(t *testing.T) {
	s := Postgres(t).NewDatabase(t)
	conn, end := session(t, s)
	defer end()
	execute(t, conn, "SELECT pg_advisory_lock(42)")
	got := watch(func(t testing.TB) { s.AwaitFree(t, time.Millisecond) })
	if got.how != "fatal" || !strings.Contains(got.text, "ExclusiveLock bigint 42 pid ") {
		t.Errorf("got %+v", got)
	}
}

// check lets a session do something, looks from outside, ends the session and looks again.
func (c heldCase) check(t *testing.T, s *Server) {
	t.Helper()
	conn, end := session(t, s)
	for _, q := range c.does {
		execute(t, conn, q)
	}
	got := s.Held(t)
	if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
		t.Errorf("%q: held = %q, want %q", c.does, got, c.want)
	}
	end()
	s.AwaitFree(t, 5*time.Second)
}

// session opens one connection, and returns how to close it.
func session(t *testing.T, s *Server) (conn *sql.Conn, end func()) {
	t.Helper()
	db, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	if conn, err = db.Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return conn, func() {
		conn.Close()
		db.Close()
	}
}
