package sqllock

import (
	"context"
	"database/sql"
	"strings"
)

// What a pin sends to MySQL and MariaDB for many requests: calls whose answers are joined into one value.

// maxCall is more than what a call takes of a statement.
const maxCall = 2 * maxMySQLName

func (*mysqlSQL) batch(ctx context.Context, s *session, batch []*request) error {
	return inPieces(ctx, s, batch, func(r *request) (string, string) {
		if r.op == opRelease {
			return "RELEASE_LOCK('", "')"
		}
		return "GET_LOCK('", "', 0)"
	})
}

// check: the answers are turned round for releases.
func (*mysqlSQL) check(ctx context.Context, s *session, batch []*request) error {
	err := inPieces(ctx, s, batch, func(*request) (string, string) {
		return "IF(IS_USED_LOCK('", "') = CONNECTION_ID(), '1', '0')"
	})
	for _, r := range batch {
		mine := r.said == saidYes
		r.said = saidNothing
		if err == nil && mine == (r.op != opRelease) {
			r.said = saidYes
		}
	}
	return err
}

// inPieces sends no more at a time than the server takes.
func inPieces(ctx context.Context, s *session, batch []*request, call func(*request) (before, after string)) error {
	size := max(1, s.packet/maxCall-1)
	for len(batch) > 0 {
		n := min(size, len(batch))
		if err := inOne(ctx, s, batch[:n], call); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// inOne leaves it open what the server said if one of the answers was NULL.
func inOne(ctx context.Context, s *session, batch []*request, call func(*request) (before, after string)) error {
	var b strings.Builder
	b.Grow(len("SELECT CONCAT()") + maxCall*len(batch))
	b.WriteString("SELECT CONCAT(")
	for i, r := range batch {
		if i > 0 {
			b.WriteByte(',')
		}
		before, after := call(r)
		b.WriteString(before)
		b.WriteString(r.grant.key.name)
		b.WriteString(after)
	}
	b.WriteByte(')')
	var answer sql.NullString
	err := s.conn.QueryRowContext(ctx, b.String()).Scan(&answer)
	if err != nil {
		return err
	}
	if !answer.Valid {
		return errNull
	}
	return note(batch, answer.String)
}
