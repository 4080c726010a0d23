package torture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqllock/sqllock/internal/testbed"
)

func (s *siege) postgres() bool { return s.server.Kind == testbed.KindPostgres }

// bounded is for what is said to the server itself: it may take long to answer, but not for ever.
func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 20*time.Second)
}

// exec must succeed: the attack would otherwise not be what it says.
func (s *siege) exec(statements ...string) {
	ctx, cancel := bounded()
	defer cancel()
	for _, statement := range statements {
		if _, err := s.outside.ExecContext(ctx, statement); err != nil {
			s.t.Errorf("%s: %v", statement, err)
		}
	}
}

// killSession ends one session, of those that hold a lock if there are any.
func (s *siege) killSession() string {
	query := `SELECT t.PROCESSLIST_ID FROM performance_schema.threads t
		LEFT JOIN performance_schema.metadata_locks m ON t.THREAD_ID = m.OWNER_THREAD_ID AND m.OBJECT_TYPE = 'USER LEVEL LOCK'
		WHERE t.TYPE = 'FOREGROUND' AND t.PROCESSLIST_ID <> CONNECTION_ID() AND t.PROCESSLIST_USER IS NOT NULL
		ORDER BY m.OBJECT_TYPE IS NULL, RAND() LIMIT 1`
	kill := "KILL %d"
	if s.postgres() {
		query = `SELECT pid FROM pg_stat_activity a LEFT JOIN pg_locks l USING (pid)
			WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND datname = current_database()
			ORDER BY l.locktype = 'advisory' AND l.granted DESC NULLS LAST, random() LIMIT 1`
		kill = "SELECT pg_terminate_backend(%d)"
	}
	ctx, cancel := bounded()
	defer cancel()
	var id int
	err := s.outside.QueryRowContext(ctx, query).Scan(&id)
	if err == nil {
		_, err = s.outside.ExecContext(ctx, fmt.Sprintf(kill, id))
	}
	if err != nil { // there may be none, or it has just ended
		return "no session killed"
	}
	return "session killed"
}

// exhaustConnections takes all that the server has left, so that nobody can connect.
func (s *siege) exhaustConnections() string {
	ctx, cancel := bounded()
	defer cancel()
	taken := 0
	for ; ctx.Err() == nil; taken++ {
		hog, err := s.outside.Conn(ctx)
		if err != nil {
			break
		}
		defer hog.Close()
	}
	if taken == 0 || ctx.Err() != nil {
		s.t.Errorf("the server gave %d connections and still has more, or had none", taken)
	}
	s.wait(200*time.Millisecond, time.Second)
	return "connections exhausted"
}

// fillLockTable leaves no memory for the lock of anybody else.
func (s *siege) fillLockTable() string {
	ctx, cancel := bounded()
	defer cancel()
	hog, err := s.outside.Conn(ctx)
	if err == nil {
		defer hog.Close() // ends the session: this pool keeps none
		_, err = hog.ExecContext(ctx, "SELECT pg_advisory_lock(2147483647, i) FROM generate_series(1, 1000000) i")
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		s.t.Errorf("the lock table has not become full: %v", err)
	}
	s.wait(200*time.Millisecond, time.Second)
	return "lock table filled"
}

// hostileTimeouts makes the server impatient with everybody for a while.
func (s *siege) hostileTimeouts() string {
	if s.postgres() {
		return s.impatientPostgres()
	}
	return s.impatientMySQL()
}

var postgresTimeouts = []string{"statement_timeout", "lock_timeout", "idle_session_timeout", "idle_in_transaction_session_timeout"}

func (s *siege) impatientPostgres() string {
	name := postgresTimeouts[s.IntN(len(postgresTimeouts))]
	s.exec(fmt.Sprintf("ALTER SYSTEM SET %s = %d", name, s.between(20*time.Millisecond, 300*time.Millisecond).Milliseconds()), "SELECT pg_reload_conf()")
	s.wait(300*time.Millisecond, silence)
	s.exec("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")
	return "hostile " + name
}

// impatientMySQL meets those who connect: a session takes the global values when it begins. So all sessions end, before
// and afterwards.
func (s *siege) impatientMySQL() string {
	name, low, normal := "wait_timeout", "1", "DEFAULT"
	switch s.IntN(3) {
	case 0:
		name = "lock_wait_timeout"
	case 1:
		name, low = "max_execution_time", "50"
		if s.server.Kind == testbed.KindMariaDB {
			name, low = "max_statement_time", "0.05"
		}
	}
	s.exec("SET GLOBAL " + name + " = " + low)
	s.onLinks((*testbed.Proxy).Cut)
	s.wait(300*time.Millisecond, 2*silence)
	s.exec("SET GLOBAL " + name + " = " + normal)
	s.onLinks((*testbed.Proxy).Cut)
	return "hostile " + name
}
