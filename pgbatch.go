package sqllock

import (
	"context"
	"fmt"
	"strconv"
)

// What a pin sends to PostgreSQL for many requests: one statement, whose parameters are the keys and, for each, which
// function to call. Its answer is one value, with a digit for each call.

// pgCode is the number of a call in the statement.
func pgCode(op requestOp, key serverKey, shared bool) (code byte) {
	if op != opRelease {
		code = 4
	}
	if shared {
		code += 2
	}
	if key.pair {
		code++
	}
	return '0' + code
}

// pgBatch is the statement. The token is taken after all grants, and is the same for all.
func pgBatch(token bool) string {
	calls := ""
	for _, c := range []struct {
		op       requestOp
		function string
	}{{opTry, "pg_try_advisory_lock"}, {opRelease, "pg_advisory_unlock"}} {
		for _, shared := range []string{"", "_shared"} {
			for _, pair := range []bool{false, true} {
				args := "k"
				if pair {
					args = "(k OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4, (k OPERATOR(pg_catalog.<<) 32 OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4"
				}
				calls += fmt.Sprintf(" WHEN o OPERATOR(pg_catalog.=) %c THEN pg_catalog.%s%s(%s)", pgCode(c.op, serverKey{pair: pair}, shared != ""), c.function, shared, args)
			}
		}
	}
	number := "0::pg_catalog.int8"
	if token {
		number = "pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8"
	}
	return "SELECT l.said, " + number + " FROM (SELECT pg_catalog.string_agg(CASE WHEN (CASE" + calls + " END) THEN '1' ELSE '0' END, '') AS said FROM " +
		"ROWS FROM (pg_catalog.unnest($1::pg_catalog.int8[]), pg_catalog.unnest($2::pg_catalog.int4[])) AS u(k, o) OFFSET 0) l"
}

var pgBatches = map[bool]string{false: pgBatch(false), true: pgBatch(true)}

func (postgresSQL) batch(ctx context.Context, s *session, batch []*request) error {
	keys, codes := make([]byte, 0, 21*len(batch)), make([]byte, 0, 2*len(batch)+1)
	for i, r := range batch {
		g := r.grant
		keys = append(keys, separator(i))
		keys = strconv.AppendInt(keys, g.key.id, 10)
		codes = append(codes, separator(i), pgCode(r.op, g.key, g.shared))
	}
	var answer string
	err := s.conn.QueryRowContext(ctx, pgBatches[s.cfg.token], string(append(keys, '}')), string(append(codes, '}'))).Scan(&answer, &s.token)
	if err != nil {
		return err
	}
	return note(batch, answer)
}

// separator stands before the i-th element of an array.
func separator(i int) byte {
	if i == 0 {
		return '{'
	}
	return ','
}

// note notes a digit for each request.
func note(batch []*request, answer string) error {
	if len(answer) != len(batch) {
		return fmt.Errorf("sqllock: the server gave %d answers to %d calls", len(answer), len(batch))
	}
	for i, r := range batch {
		switch answer[i] {
		case '1':
			r.said = saidYes
		case '0':
			r.said = saidNo
		}
	}
	return nil
}

const pgMineAll = "SELECT l.classid::pg_catalog.int8, l.objid::pg_catalog.int8, l.objsubid, l.mode OPERATOR(pg_catalog.=) 'ShareLock' FROM pg_catalog.pg_locks l" +
	" WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND l.granted"

func (postgresSQL) check(ctx context.Context, s *session, batch []*request) error {
	rows, err := s.conn.QueryContext(ctx, pgMineAll)
	if err != nil {
		return err
	}
	defer rows.Close()
	type hold struct {
		key    serverKey
		shared bool
	}
	mine := map[hold]bool{}
	for rows.Next() {
		var class, object int64
		var space int
		var shared bool
		if err := rows.Scan(&class, &object, &space, &shared); err != nil {
			return err
		}
		mine[hold{serverKey{pair: space == 2, id: class<<32 | object}, shared}] = true
	}
	for _, r := range batch {
		r.said = saidNothing
		if mine[hold{r.grant.key, r.grant.shared}] == (r.op != opRelease) {
			r.said = saidYes
		}
	}
	return rows.Err()
}
