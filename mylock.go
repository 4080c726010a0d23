package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sqllock/sqllock/internal/native"
)

// MySQL acquires named locks (GET_LOCK) on MySQL and MariaDB. It is a [Locker] and safe for concurrent use.
// Named locks are per server, not per database: see [WithDatabase].
//
// Connections are used as [Postgres] uses them: uncontended locks share one, a contended key gets its own.
//
// A server that is read-only, and so may be a replica, and a Galera node are refused with [ErrUnsupported]:
// their named locks are their own. See [WithServerLocks]. Import mysqllock, so that the server's error numbers are understood.
type MySQL struct{ view }

// NewMySQL returns a locker on db, whose driver may be guarded or not. Contradictory options are an error of
// every acquire.
func NewMySQL(db *sql.DB, opts ...LockerOption) *MySQL {
	return &MySQL{view{l: newLocker(db, &mysqlSQL{}, opts)}}
}

// OnConn returns a Locker on the session of a connection of the caller's: see [Postgres.OnConn]. A transaction on
// the connection, failed or not, does not matter to the locks.
func (m *MySQL) OnConn(conn *sql.Conn) Locker { return newOnConn(m.l, conn) }

// AcquireAll acquires several keys: see [Postgres.AcquireAll].
func (m *MySQL) AcquireAll(ctx context.Context, keys ...Key) ([]*Lock, error) {
	return m.acquireAll(ctx, keys)
}

// Close releases every lock that is held through m's pinned connections, and gives those back: see [Postgres.Close].
func (m *MySQL) Close() error { return m.l.close() }

// mysqlSQL is the SQL of MySQL and MariaDB. Names are rendered: MySQLName's alphabet needs no quoting, and
// go-sql-driver would send a parameter in a second round trip. The calls stand bare, as proxies want them.
type mysqlSQL struct{ database Namespace }

func (d *mysqlSQL) configure(c lockerConfig) error {
	d.database = Namespace(c.database)
	if c.token {
		return fmt.Errorf("%w: WithToken: MySQL has no counter that a lock could hand out: use a PostgreSQL, or a column of the protected table", ErrUnsupported)
	}
	return nil
}

func (d *mysqlSQL) key(k Key) serverKey {
	if d.database != "" {
		k = d.database.Name(k.MySQLName())
	}
	return serverKey{name: k.MySQLName()}
}

func (*mysqlSQL) dialect() Dialect        { return DialectMySQL }
func (*mysqlSQL) name(k serverKey) string { return k.name }

func (d *mysqlSQL) try(ctx context.Context, s *session, g *grant) (bool, error) {
	if !s.opened {
		if err := d.open(ctx, s); err != nil {
			return false, err
		}
	}
	return d.getLock(ctx, s, g, "', 0)")
}

// getLock asks for a lock; the end of the call has the time-out. NULL is neither "busy" nor success.
func (*mysqlSQL) getLock(ctx context.Context, s *session, g *grant, end string) (bool, error) {
	var got sql.NullInt64
	err := s.conn.QueryRowContext(ctx, "SELECT GET_LOCK('"+g.key.name+end).Scan(&got)
	switch {
	case err != nil:
		return false, mysqlError(err)
	case !got.Valid:
		return false, errNull
	}
	return got.Int64 == 1, nil
}

var errNull = errors.New("sqllock: GET_LOCK answered NULL: the statement was killed or timed out, or the server refused it")

const (
	mySlice = time.Second // a shorter one MySQL rounds to none
	myPoll  = 250 * time.Millisecond
)

func (*mysqlSQL) slice() time.Duration { return mySlice }

// wait waits for a second. A statement that was killed or that timed out only ends the slice.
func (d *mysqlSQL) wait(ctx context.Context, s *session, g *grant) (ok bool, err error) {
	if t := s.native.ReadTimeout; t > 0 && t < 2*mySlice { // the driver would not wait for the answer
		ok, err = d.poll(ctx, s, g)
	} else {
		ok, err = d.getLock(ctx, s, g, "', 1)")
	}
	if n := native.ErrorNumber(err); errors.Is(err, errNull) || n == 1317 || n == 3024 {
		return d.holds(ctx, s, g)
	}
	return ok, err
}

// poll waits on this side of the connection.
func (d *mysqlSQL) poll(ctx context.Context, s *session, g *grant) (bool, error) {
	t := time.NewTimer(myPoll)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return d.try(ctx, s, g)
}

func (*mysqlSQL) release(ctx context.Context, s *session, g *grant) (bool, error) {
	var ok sql.NullInt64
	err := s.conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK('"+g.key.name+"')").Scan(&ok)
	return ok.Int64 == 1, err
}

func (*mysqlSQL) holds(ctx context.Context, s *session, g *grant) (bool, error) {
	var mine sql.NullBool
	err := s.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK('"+g.key.name+"') = CONNECTION_ID()").Scan(&mine)
	return mine.Bool, err
}

// ping also asks whether the server has become read-only, as a primary does that is made a replica: its sessions live on.
func (*mysqlSQL) ping(ctx context.Context, s *session) error {
	var readOnly string
	err := s.conn.QueryRowContext(ctx, "SELECT @@read_only").Scan(&readOnly)
	switch {
	case native.ErrorNumber(err) == 1193: // a server of another make, without this variable
		return nil
	case err == nil && isOn(readOnly) && !s.cfg.ownLocks:
		return errDemoted
	}
	return err
}

// open looks at the server and bounds how long it keeps a session that is silent.
func (d *mysqlSQL) open(ctx context.Context, s *session) error {
	vars, err := d.variables(ctx, s)
	if err == nil {
		err = refuseServer(vars, s.cfg.ownLocks)
	}
	if err == nil && !s.foreign {
		seconds := int64((s.cfg.silence + time.Second - 1) / time.Second)
		_, err = s.conn.ExecContext(ctx, "SET SESSION wait_timeout = "+strconv.FormatInt(seconds, 10))
	}
	if err != nil {
		return err
	}
	s.opened, s.prior, s.id = true, vars["wait_timeout"], vars["pseudo_thread_id"]
	s.packet, _ = strconv.Atoi(vars["max_allowed_packet"]) // unknown: one call at a time
	return nil
}

func (*mysqlSQL) variables(ctx context.Context, s *session) (map[string]string, error) {
	rows, err := s.conn.QueryContext(ctx, "SHOW SESSION VARIABLES WHERE Variable_name IN"+
		" ('read_only', 'super_read_only', 'innodb_read_only', 'wsrep_on', 'wait_timeout', 'version', 'pseudo_thread_id', 'max_allowed_packet')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	vars := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		vars[strings.ToLower(name)] = value
	}
	return vars, rows.Err()
}

// refuseServer: a server that does not lock at all is refused in any case.
func refuseServer(vars map[string]string, ownLocks bool) error {
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only"} {
		if isOn(vars[name]) && !ownLocks {
			return fmt.Errorf("%w: this server has %s on: it may be a replica, whose named locks are its own: connect to the primary", ErrUnsupported, name)
		}
	}
	if isOn(vars["wsrep_on"]) && !ownLocks {
		return fmt.Errorf("%w: this is a Galera node, whose named locks are its own: lock on one fixed server outside of the cluster", ErrUnsupported)
	}
	if strings.Contains(vars["version"], "TiDB") && strings.Contains(vars["version"], "-v5.") {
		return fmt.Errorf("%w: this TiDB does not enforce named locks: use version 6.5 or later", ErrUnsupported)
	}
	return nil
}

// isOn: MariaDB's read_only has more values than two.
func isOn(v string) bool { return v != "" && v != "0" && !strings.EqualFold(v, "OFF") }

func (*mysqlSQL) restore(ctx context.Context, s *session) error {
	if !s.opened {
		return nil
	}
	seconds, err := strconv.ParseUint(s.prior, 10, 63)
	if err != nil {
		return err
	}
	_, err = s.conn.ExecContext(ctx, "SET SESSION wait_timeout = "+strconv.FormatUint(seconds, 10))
	return err
}

// kill asks over a connection of its own. After a restart of the server another session may have the same id: only
// one that holds the key is ended.
func (*mysqlSQL) kill(ctx context.Context, s *session, k serverKey) error {
	if s.native.Sibling == nil || s.id == "" {
		return nil
	}
	db := sql.OpenDB(s.native.Sibling)
	defer db.Close()
	var id sql.NullString
	err := db.QueryRowContext(ctx, "SELECT IS_USED_LOCK('"+k.name+"')").Scan(&id)
	if err != nil || id.String != s.id {
		return err
	}
	_, err = db.ExecContext(ctx, "KILL "+s.id)
	return err
}

// holder: without the PROCESS privilege other users' sessions are not shown.
func (*mysqlSQL) holder(ctx context.Context, db *sql.DB, k serverKey) (string, error) {
	var id, user, host sql.NullString
	err := db.QueryRowContext(ctx, "SELECT l.id, p.USER, p.HOST FROM (SELECT IS_USED_LOCK('"+k.name+"') AS id) l"+
		" LEFT JOIN information_schema.PROCESSLIST p ON p.ID = l.id").Scan(&id, &user, &host)
	switch {
	case err != nil || !id.Valid:
		return "", err
	case !user.Valid:
		return "connection " + id.String, nil
	}
	return fmt.Sprintf("connection %s, user %s, host %s", id.String, legible(user.String), legible(host.String)), nil
}

// mysqlError gives the errors that a program decides by their names.
func mysqlError(err error) error {
	switch native.ErrorNumber(err) {
	case 3058, 1213:
		return fmt.Errorf("%w: %w", ErrDeadlock, err)
	}
	return err
}
