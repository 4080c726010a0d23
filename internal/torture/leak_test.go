package torture

import (
	"context"
	"fmt"
	"strings"
)

// Ways to leave a lock behind on a connection that goes back to the pool. %d is a number of its own for each.
var (
	postgresLeaks = []string{
		"SELECT pg_advisory_lock(%d)",
		"SELECT pg_try_advisory_lock_shared(1, %d)",
		"DO $$ BEGIN PERFORM pg_advisory_lock(%d); END $$",
		"DO $$ BEGIN EXECUTE 'SELECT pg_advisory' || '_lock(%d)'; END $$",
	}
	mysqlLeaks = []string{
		"SELECT GET_LOCK('leak %d', 0)",
		"SET @lock = CONCAT('SELECT GET', '_LOCK(''leak %d'', 0)'); PREPARE lock_it FROM @lock; EXECUTE lock_it",
		"DO GET_LOCK('leak %d', 0)",
	}
)

// leak forgets an unlock. Only the guard's driver mends that, so that only its pools do it.
func (t *task) leak(ctx context.Context) {
	if !t.guarded {
		return
	}
	t.Op, t.Key = "leak", ""
	leaks := mysqlLeaks
	if t.postgres {
		leaks = postgresLeaks
	}
	text := fmt.Sprintf(leaks[t.r.IntN(len(leaks))], t.r.Int32())
	statements := []string{text}
	if !t.postgres {
		statements = strings.Split(text, "; ")
	}
	t.end(t.execOnOne(ctx, statements))
}

func (t *task) execOnOne(ctx context.Context, statements []string) error {
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
