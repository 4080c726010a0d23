package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Postgres acquires PostgreSQL advisory locks at session level. It is a [Locker] of exclusive locks and safe for
// concurrent use.
//
// All uncontended locks share one pinned connection of the pool, taken on first use and given back a second after
// the last release; what is asked for while it is busy goes to the server together. A key that another process holds is
// waited for, and then held, on a connection of its own; the goroutines of this process that want it take turns. If a
// connection breaks, every lock on it is lost at once and every Lock's context says so: [WithDedicatedConn] gives each
// lock its own. Make one Postgres per pool; one per call works, at a pinned connection each.
//
// A standby is refused with [ErrUnsupported], in the round trip of the first acquire itself: its advisory locks are its own, so
// that every replica would let its holder win. So is a server that accepts the statements and does not lock, and, where pgxlock is
// imported and the driver is pgx, a pooler in transaction or statement mode: use [RunExclusive] through one. [Check] finds more.
//
// Several keys acquired one after the other can deadlock across processes. Waits are sliced, so that no server sees such a
// deadlock: it ends when a ctx does. AcquireAll has none.
type Postgres struct{ view }

// NewPostgres returns a locker on db, whose driver may be guarded or not. It connects to nothing. Contradictory
// options are an error of every acquire.
func NewPostgres(db *sql.DB, opts ...LockerOption) *Postgres {
	return &Postgres{view{l: newLocker(db, postgresSQL{}, opts)}}
}

// Shared returns a Locker of shared locks: any number of them go together, and exclude exclusive ones.
// It uses the same connections as p.
func (p *Postgres) Shared() Locker { return view{l: p.l, shared: true} }

// OnConn returns a Locker on the session of a connection of the caller's, who keeps using it: the writes that are
// made through it fence themselves, because they fail when the lock is lost. Nothing watches the connection, so that
// Lock.Context does not tell a loss. Waiting asks the server four times a second; a ctx that ends does not interrupt a round
// trip, because the connection would not survive that. The connection may be in a
// transaction; the lock does not depend on it, but Release inside of one that has failed has to end the session.
// Release the lock before the connection is closed: on a guarded pool a connection that comes back with it is
// discarded, on a plain one it stays locked.
func (p *Postgres) OnConn(conn *sql.Conn) Locker { return newOnConn(p.l, conn) }

// AcquireAll acquires several keys, each once, in one order that all processes share, and waits for each in turn: it
// returns with all of them or none. The locks come in that order, without duplicates: release each. A ctx that ends
// releases those that it has.
func (p *Postgres) AcquireAll(ctx context.Context, keys ...Key) ([]*Lock, error) {
	return p.acquireAll(ctx, keys)
}

// Close releases every lock that is held through p's pinned connections, whose contexts end, and gives the connections
// back. Waiting and later acquires fail. It does not close the pool. It can be called again.
func (p *Postgres) Close() error { return p.l.close() }

// postgresSQL is the SQL of PostgreSQL. Every name is qualified: nothing in a user's search_path can answer instead.
type postgresSQL struct{}

func (postgresSQL) configure(c lockerConfig) error {
	if c.database != "" {
		return errors.New("sqllock: WithDatabase is for MySQL: PostgreSQL's advisory locks are per database")
	}
	if c.ownLocks {
		return errors.New("sqllock: WithServerLocks is for MySQL: a PostgreSQL standby is always refused")
	}
	return nil
}

func (postgresSQL) dialect() Dialect { return DialectPostgres }

func (postgresSQL) key(k Key) serverKey { return serverKey{pair: k.form == formPair, id: k.Int64()} }

func (postgresSQL) name(k serverKey) string {
	if k.pair {
		return fmt.Sprintf("%d,%d", int32(k.id>>32), int32(k.id))
	}
	return strconv.FormatInt(k.id, 10)
}

// pgArgs are a key's parameters.
func pgArgs(k serverKey) []any {
	if k.pair {
		return []any{int32(k.id >> 32), int32(k.id)}
	}
	return []any{k.id}
}

// pgCalls is a lock function in its four forms.
type pgCalls struct{ exclusive, shared, exclusivePair, sharedPair string }

func newPgCalls(function string) pgCalls {
	return pgCalls{function + "($1)", function + "_shared($1)", function + "($1, $2)", function + "_shared($1, $2)"}
}

func (c *pgCalls) of(key serverKey, shared bool) string {
	switch {
	case key.pair && shared:
		return c.sharedPair
	case key.pair:
		return c.exclusivePair
	case shared:
		return c.shared
	}
	return c.exclusive
}

// The guard follows the plain forms, whole statements, exactly.
var (
	pgPlainTry     = newPgCalls("SELECT pg_catalog.pg_try_advisory_lock")
	pgPlainRelease = newPgCalls("SELECT pg_catalog.pg_advisory_unlock")
	pgTry          = newPgCalls("pg_catalog.pg_try_advisory_lock")
	pgWait         = newPgCalls("pg_catalog.pg_advisory_lock")
	pgTryTx        = newPgCalls("pg_catalog.pg_try_advisory_xact_lock")
	pgWaitTx       = newPgCalls("pg_catalog.pg_advisory_xact_lock")
)

// pgMine asks whether this session has the key in this mode; the numbers are rendered, they need no quoting.
func pgMine(g *grant) string {
	mode := "ExclusiveLock"
	if g.shared {
		mode = "ShareLock"
	}
	return fmt.Sprintf("EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory'"+
		" AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND granted AND mode OPERATOR(pg_catalog.=) '%s'"+
		" AND classid OPERATOR(pg_catalog.=) '%d'::pg_catalog.oid AND objid OPERATOR(pg_catalog.=) '%d'::pg_catalog.oid"+
		" AND objsubid OPERATOR(pg_catalog.=) '%d'::pg_catalog.int2)", mode, uint32(g.key.id>>32), uint32(g.key.id), g.key.space())
}

// space is what tells the bigints and the pairs apart in pg_locks, as objsubid: by the number of their parts.
func (k serverKey) space() int {
	if k.pair {
		return 2
	}
	return 1
}

// pgAcquire completes a condition, which acquires, into a statement with further columns. The fencing token is taken in
// the same statement, after the grant.
func pgAcquire(condition string, token bool, more string) string {
	number := "0::pg_catalog.int8"
	if token {
		number = "CASE WHEN l.ok THEN pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8 ELSE 0 END"
	}
	return "SELECT l.ok, " + number + more + " FROM (SELECT " + condition + " AS ok OFFSET 0) l"
}

func (d postgresSQL) try(ctx context.Context, s *session, g *grant) (bool, error) {
	switch {
	case !s.opened && !s.foreign:
		return d.open(ctx, s, g)
	case !s.opened:
		if err := d.inspect(ctx, s); err != nil {
			return false, err
		}
	}
	if s.cfg.token {
		return d.answer(ctx, s, g, pgAcquire(pgTry.of(g.key, g.shared), true, ""), &s.token)
	}
	return d.answer(ctx, s, g, pgPlainTry.of(g.key, g.shared))
}

// answer runs an acquiring statement and reads what it says.
func (postgresSQL) answer(ctx context.Context, s *session, g *grant, query string, more ...any) (bool, error) {
	var ok sql.NullBool
	err := s.conn.QueryRowContext(ctx, query, pgArgs(g.key)...).Scan(append([]any{&ok}, more...)...)
	switch {
	case err != nil:
		return false, pgError(err)
	case !ok.Valid:
		return false, errStandby
	}
	return ok.Bool, nil
}

var errStandby = fmt.Errorf("%w: this server is a standby, whose advisory locks are its own: connect to the primary (target_session_attrs=primary)", ErrUnsupported)

// pgOpening is what the first statement of a pin does besides: it says what server this is and bounds how long the
// server keeps a session that is silent, where it can (PostgreSQL 14).
const pgOpening = ", pg_catalog.version(), pg_catalog.current_setting('idle_session_timeout', true)," +
	" CASE WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.>=) 140000%s" +
	" THEN pg_catalog.set_config('idle_session_timeout', '%d', false) END"

// open is the first try of a pin. It answers NULL, and nothing is acquired or set, on a standby and where another session
// answers than the one that the driver has connected to: through a pooler, which is then looked at.
func (d postgresSQL) open(ctx context.Context, s *session, g *grant) (bool, error) {
	here := s.isOwnPID()
	query := pgAcquire("CASE WHEN NOT pg_catalog.pg_is_in_recovery()"+here+" THEN "+pgTry.of(g.key, g.shared)+" END", s.cfg.token,
		fmt.Sprintf(pgOpening, here, s.cfg.silence.Milliseconds()))
	var version string
	var prior, now sql.NullString
	ok, err := d.answer(ctx, s, g, query, &s.token, &version, &prior, &now)
	if here != "" && (errors.Is(err, errStandby) || isMixedUp(err)) {
		if err := d.lookAtPooler(ctx, s); err != nil {
			return false, err
		}
		return d.open(ctx, s, g)
	}
	if err != nil {
		return false, err
	}
	s.opened, s.prior = true, prior.String
	if !now.Valid {
		err = d.keepalives(ctx, s)
	}
	return ok, errors.Join(err, refuseVersion(version))
}

// isMixedUp: a prepared statement of the driver's met another client's, or none, as through a pooler.
func isMixedUp(err error) bool {
	state := sqlState(err)
	return state == "42P05" || state == "26000"
}

// inspect looks at the server behind a caller's connection.
func (d postgresSQL) inspect(ctx context.Context, s *session) error {
	if err := d.lookAtPooler(ctx, s); err != nil {
		return err
	}
	var standby bool
	var version string
	err := s.conn.QueryRowContext(ctx, "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.version()").Scan(&standby, &version)
	switch {
	case err != nil:
		return err
	case standby:
		return errStandby
	}
	s.opened = true
	return refuseVersion(version)
}

// keepalives bounds the silence by TCP where the server has no idle_session_timeout.
func (postgresSQL) keepalives(ctx context.Context, s *session) error {
	seconds := int(max(s.cfg.silence/4, time.Second).Seconds())
	_, err := s.conn.ExecContext(ctx, fmt.Sprintf("SELECT pg_catalog.set_config('tcp_keepalives_idle', '%d', false),"+
		" pg_catalog.set_config('tcp_keepalives_interval', '%d', false), pg_catalog.set_config('tcp_keepalives_count', '2', false)", seconds, seconds))
	return err
}

func refuseVersion(version string) error {
	if strings.Contains(version, "CockroachDB") {
		return fmt.Errorf("%w: CockroachDB accepts advisory lock functions and does not lock: use a table, or a PostgreSQL for the locks", ErrUnsupported)
	}
	return nil
}

const pgSlice = 250 * time.Millisecond

func (postgresSQL) slice() time.Duration { return pgSlice }

// wait waits for one slice. The slice before may have been granted the lock when it timed out, and acquires stack:
// the session looks first. The time-out ends with the statement's transaction.
func (d postgresSQL) wait(ctx context.Context, s *session, g *grant) (bool, error) {
	condition := fmt.Sprintf("CASE WHEN %s THEN true WHEN pg_catalog.set_config('lock_timeout', '%d', true) IS NOT NULL THEN %s IS NOT NULL END",
		pgMine(g), pgSlice.Milliseconds(), pgWait.of(g.key, g.shared))
	ok, err := d.answer(ctx, s, g, pgAcquire(condition, s.cfg.token, ""), &s.token)
	if isSliceEnd(err) {
		return false, nil
	}
	return ok, err
}

// isSliceEnd: the slice's own lock_timeout, or a statement_timeout of the role's.
func isSliceEnd(err error) bool {
	state := sqlState(err)
	return state == "55P03" || state == "57014"
}

func (postgresSQL) release(ctx context.Context, s *session, g *grant) (ok bool, err error) {
	err = s.conn.QueryRowContext(ctx, pgPlainRelease.of(g.key, g.shared), pgArgs(g.key)...).Scan(&ok)
	return ok, err
}

func (postgresSQL) holds(ctx context.Context, s *session, g *grant) (held bool, err error) {
	err = s.conn.QueryRowContext(ctx, "SELECT "+pgMine(g)).Scan(&held)
	return held, err
}

// pgPing asks whether the server is what it was: a locker refuses a standby, and what has become one, or was made read-only
// as a whole, may not be the only server that grants locks. A role's own read-only default does not matter.
const pgPing = "SELECT pg_catalog.pg_is_in_recovery() OR EXISTS (SELECT FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) 'default_transaction_read_only'" +
	" AND setting OPERATOR(pg_catalog.=) 'on' AND source OPERATOR(pg_catalog.=) 'configuration file')"

func (postgresSQL) ping(ctx context.Context, s *session) error {
	var demoted bool
	err := s.conn.QueryRowContext(ctx, pgPing).Scan(&demoted)
	if err == nil && demoted {
		return errDemoted
	}
	return err
}

var errDemoted = errors.New("sqllock: the server has become read-only: another one may grant its locks now")

// restore gives the session back what bounded its silence before.
func (postgresSQL) restore(ctx context.Context, s *session) (err error) {
	switch {
	case !s.opened:
	case s.prior != "":
		_, err = s.conn.ExecContext(ctx, "SELECT pg_catalog.set_config('idle_session_timeout', $1, false)", s.prior)
	default:
		_, err = s.conn.ExecContext(ctx, "SELECT pg_catalog.set_config(n, d.reset_val, false) FROM pg_catalog.unnest(ARRAY['tcp_keepalives_idle',"+
			" 'tcp_keepalives_interval', 'tcp_keepalives_count']) n JOIN pg_catalog.pg_settings d ON d.name OPERATOR(pg_catalog.=) n")
	}
	return err
}

// kill has nothing to do: a statement of ours never waits for longer than a slice, and pgx and lib/pq cancel what they give up.
func (postgresSQL) kill(context.Context, *session, serverKey) error { return nil }

const pgHolder = `SELECT pg_catalog.concat('pid ', l.pid, ', application "', a.application_name, '", user ', a.usename, ', address ', coalesce(pg_catalog.host(a.client_addr), 'local'))
	FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) l.pid
	WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.granted
	AND l.database OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
	AND l.classid::pg_catalog.int8 OPERATOR(pg_catalog.=) $1 AND l.objid::pg_catalog.int8 OPERATOR(pg_catalog.=) $2 AND l.objsubid::pg_catalog.int8 OPERATOR(pg_catalog.=) $3 LIMIT 1`

func (postgresSQL) holder(ctx context.Context, db *sql.DB, k serverKey) (who string, err error) {
	err = db.QueryRowContext(ctx, pgHolder, int64(uint32(k.id>>32)), int64(uint32(k.id)), int64(k.space())).Scan(&who)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return legible(who), err
}

// sqlState reads the SQLSTATE that pgx's and lib/pq's errors have.
func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// pgError gives the errors that a program decides by their names.
func pgError(err error) error {
	switch sqlState(err) {
	case "40P01":
		return fmt.Errorf("%w: %w", ErrDeadlock, err)
	case "53200":
		return fmt.Errorf("sqllock: the server's lock table is full: raise max_locks_per_transaction (it counts times max_connections): %w", err)
	}
	return err
}
