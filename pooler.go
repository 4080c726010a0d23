package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

// What stands between a client and its server is found out by experiment. No experiment takes a session lock: taken
// through a pooler in transaction mode it would stay there, on a connection of nobody's.

// A PoolerMode says how long a pooler lets a client have a server connection.
type PoolerMode string

const (
	// PoolerNone: no pooler was seen. A proxy that only carries bytes is none.
	PoolerNone PoolerMode = ""
	// PoolerSession: a client has its server connection until it disconnects. Session locks work.
	PoolerSession PoolerMode = "session"
	// PoolerTransaction: for a transaction. Session locks stay behind on a connection that others get.
	PoolerTransaction PoolerMode = "transaction"
	// PoolerStatement: for a statement. There are no transactions either.
	PoolerStatement PoolerMode = "statement"
	// PoolerUnknown: there is one, and it could not be told which.
	PoolerUnknown PoolerMode = "unknown"
)

// A client is a connection as the experiments use it: nothing that they send is prepared or cached.
type client struct {
	*sql.Conn
	dialect Dialect
	plain   []any
	pid     int64 // what the protocol called the session when it began; 0 if the driver does not tell
	close   func()
}

type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A serverSession is a server connection's name, which is unique also where two clients reach two servers.
type serverSession struct {
	pid    int64
	server string
}

// session asks which server connection answers now.
func (c *client) session(ctx context.Context, q rowQuerier) (s serverSession, err error) {
	query := "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_postmaster_start_time()::pg_catalog.text"
	if c.dialect == DialectMySQL {
		query = "SELECT CONNECTION_ID(), CONCAT(@@hostname, ':', @@port)"
	}
	err = q.QueryRowContext(ctx, query, c.plain...).Scan(&s.pid, &s.server)
	return s, err
}

const (
	poolerRounds   = 10
	poolerPatience = 3 * time.Second // for each of an experiment's steps
)

// experimentTx is read-only: lib/pq asks for the opposite otherwise, which a standby refuses.
var experimentTx = &sql.TxOptions{ReadOnly: true}

// An experiment watches which server connections two clients get.
type experiment struct {
	clients [2]*client
	reopen  func(context.Context) (*client, error) // makes one more like the second
	seen    [2]serverSession                       // the server connection that each had first
}

// errTwoClients: see experiment.mode.
var errTwoClients = errors.New("sqllock: a second connection got no answer in time")

// mode tells a pooler's mode, or PoolerNone if nothing was seen of one. That two idle clients share a server connection, or that one
// changes its, is proof. That neither happened in many rounds is not, so that the rounds leave a pooler no order
// in which it could hand out the same ones by chance; certain says that there is one.
func (x *experiment) mode(ctx context.Context, certain bool) (PoolerMode, error) {
	if x.clients[0].dialect == DialectPostgres {
		if statement, err := x.refusesBegin(ctx); err != nil || statement {
			return PoolerStatement, err
		}
	}
	for range poolerRounds {
		shared, err := x.round(ctx)
		switch {
		case err != nil:
			return PoolerUnknown, err
		case shared:
			return PoolerTransaction, nil
		case !certain && x.clients[0].pid != 0: // the protocol's own word is as good as ten rounds
			return PoolerNone, nil
		}
	}
	if certain {
		return PoolerSession, nil
	}
	return PoolerNone, nil
}

// refusesBegin: in statement mode a pooler answers BEGIN with a protocol violation and hangs up. lib/pq only notices the
// latter, which can also be an accident: it has to happen again while plain questions are answered.
func (x *experiment) refusesBegin(ctx context.Context) (bool, error) {
	refused, err := x.tryBegin(ctx, x.clients[1])
	if !errors.Is(err, driver.ErrBadConn) {
		return refused, err
	}
	again, e := x.reopen(ctx)
	if e != nil {
		return false, errors.Join(err, e)
	}
	defer again.close()
	if _, e = again.session(ctx, again); e == nil {
		refused, e = x.tryBegin(ctx, again)
	}
	if errors.Is(e, driver.ErrBadConn) {
		_, e = x.clients[0].session(ctx, x.clients[0])
		return e == nil, e
	}
	return refused, errors.Join(err, e)
}

func (x *experiment) tryBegin(ctx context.Context, c *client) (refused bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, poolerPatience)
	defer cancel()
	tx, err := c.BeginTx(ctx, experimentTx)
	if err == nil {
		return false, tx.Rollback()
	}
	if sqlState(err) == "08P01" {
		return true, nil
	}
	return false, stepError(ctx, err)
}

// round: the first client twice, against poolers that take turns; the second while the first is idle; and the first
// while the second keeps its server connection in a transaction.
func (x *experiment) round(ctx context.Context) (shared bool, err error) {
	for _, who := range []int{0, 0, 1} {
		if shared, err = x.look(ctx, who, x.clients[who]); err != nil || shared {
			return shared, err
		}
	}
	if x.clients[0].dialect == DialectMySQL {
		return false, nil
	}
	tx, err := x.clients[1].BeginTx(ctx, experimentTx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	if shared, err = x.look(ctx, 1, tx); err != nil || shared {
		return shared, err
	}
	return x.look(ctx, 0, x.clients[0])
}

// look notes which server connection answers, and says whether that proves that idle clients share them.
func (x *experiment) look(ctx context.Context, who int, q rowQuerier) (shared bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, poolerPatience)
	defer cancel()
	s, err := x.clients[who].session(ctx, q)
	if err != nil {
		return false, stepError(ctx, err)
	}
	if x.seen[who] == (serverSession{}) {
		x.seen[who] = s
	}
	return s != x.seen[who] || s == x.seen[1-who], nil
}

// stepError: where only a step's own time ran out, the pooler, or the server, has no connection to spare.
func stepError(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.Join(errTwoClients, err)
	}
	return err
}

// isOwnPID is a condition: that the session which answers is the one that the protocol named. It is empty where the driver does
// not tell, and where that has been looked at.
func (s *session) isOwnPID() string {
	if s.direct || s.native.PID == nil || s.native.PID() == 0 {
		return ""
	}
	return fmt.Sprintf(" AND pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) %d", s.native.PID())
}

// lookAtPooler refuses a pooler that gives this client's server connection to others, for the length of a transaction or a
// statement. It costs a round trip where there is none, and tens of them and a connection where there is one.
func (postgresSQL) lookAtPooler(ctx context.Context, s *session) error {
	if s.isOwnPID() == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.timeout*4/5)
	defer cancel()
	first := &client{Conn: s.conn, dialect: DialectPostgres}
	first.use(s.native)
	now, err := first.session(ctx, first)
	if err != nil {
		return err
	}
	if now.pid == first.pid {
		s.direct = true
		return nil
	}
	reopen := func(ctx context.Context) (*client, error) { return sibling(ctx, nil, s.native, first) }
	second, err := reopen(ctx)
	if err != nil {
		return fmt.Errorf("a pooler is in between, and its mode could not be told: %w", err)
	}
	defer second.close()
	mode, err := (&experiment{clients: [2]*client{first, second}, reopen: reopen}).mode(ctx, true)
	switch {
	case err != nil:
		return fmt.Errorf("a pooler is in between, and its mode could not be told: %w", err)
	case mode != PoolerSession:
		return fmt.Errorf("%w: a pooler in %s mode is in between, where a session lock would stay on a connection that others use: %s", ErrUnsupported, mode, poolerRemedy)
	}
	s.direct = true
	return nil
}
