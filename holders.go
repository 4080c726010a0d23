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

// A Holder is a session that holds a session or transaction lock, or waits for one, as the server shows it.
type Holder struct {
	Kind        string    `json:"kind"` // "advisory lock" or "named lock"
	Key         string    `json:"key"`  // The bigint, "a,b" for two ints, or the name.
	Shared      bool      `json:"shared"`
	Waiting     bool      `json:"waiting"`               // It waits, and does not hold.
	WaitsFor    []int64   `json:"waits_for,omitempty"`   // The sessions that it waits for.
	PID         int64     `json:"pid"`                   // The server's number for the session: pg_backend_pid, or CONNECTION_ID.
	User        string    `json:"user,omitempty"`        //
	Application string    `json:"application,omitempty"` // What the client calls itself.
	Client      string    `json:"client,omitempty"`      // Its address; "local" for a Unix socket.
	Connected   time.Time `json:"connected,omitzero"`    // PostgreSQL: since when the session lives. No server tells when a lock was granted.
	Since       time.Time `json:"since,omitzero"`        // Waiting (PostgreSQL 14): since when. Otherwise, since when it is in its state.
	State       string    `json:"state,omitempty"`       // PostgreSQL: "active", "idle", "idle in transaction"; otherwise the command, such as "Sleep" or "Query".
	Statement   string    `json:"statement,omitempty"`   // What it is at or, if it is idle, its last; MariaDB shows no last ones.
	Hidden      string    `json:"hidden,omitempty"`      // Which grant it takes to see what is missing here.
}

// Holders asks the server who holds session and transaction locks and who waits for them: on PostgreSQL in db's database, on MySQL and MariaDB
// on the whole server. Holders come before waiters, in the order of their keys. It sends two statements and takes no lock; ctx
// bounds it.
//
// PostgreSQL shows the role's own sessions; of others' no more than key, PID, user and application, unless the role has pg_read_all_stats: Hidden says so. MySQL
// needs SELECT on performance_schema; without it the error names the grant. MariaDB shows locks only where performance_schema and
// its instrument wait/lock/metadata/sql/mdl are on, or the plugin metadata_lock_info is installed, which cannot tell who waits for
// what; without either the error is [ErrUnsupported] and says how.
func Holders(ctx context.Context, db *sql.DB) ([]Holder, error) {
	if db == nil {
		return nil, errors.New("sqllock: holders: the *sql.DB is nil")
	}
	c := &checker{db: db}
	holders, err := c.holders(ctx)
	if err != nil {
		return nil, fmt.Errorf("sqllock: holders: %w", joinContext(ctx, err))
	}
	return holders, nil
}

func (c *checker) holders(ctx context.Context) (found []Holder, err error) {
	if c.first, err = c.connect(ctx); err != nil {
		return nil, err
	}
	defer c.first.close()
	if err := c.identify(ctx); err != nil {
		return nil, err
	}
	if c.first.dialect == DialectPostgres {
		return c.pgHolders(ctx)
	}
	return c.mysqlHolders(ctx)
}

// pgHolders takes what only newer servers have out of the row as a whole. A role that may not see a session gets NULL
// for all but its PID, and a text in place of its statement.
const pgHolders = `SELECT CASE l.objsubid WHEN 1 THEN ((l.classid::pg_catalog.int8 << 32) | l.objid::pg_catalog.int8)::pg_catalog.text
	ELSE pg_catalog.concat(l.classid::pg_catalog.int8::pg_catalog.bit(32)::pg_catalog.int4, ',', l.objid::pg_catalog.int8::pg_catalog.bit(32)::pg_catalog.int4) END,
	l.mode OPERATOR(pg_catalog.=) 'ShareLock', NOT l.granted,
	CASE WHEN l.granted THEN '' ELSE pg_catalog.array_to_string(pg_catalog.pg_blocking_pids(l.pid), ' ') END,
	coalesce(l.pid, 0), coalesce(a.usename::pg_catalog.text, ''), coalesce(a.application_name, ''),
	CASE WHEN a.backend_start IS NULL THEN '' ELSE coalesce(pg_catalog.host(a.client_addr), 'local') END,
	a.backend_start, coalesce((pg_catalog.to_jsonb(l) OPERATOR(pg_catalog.->>) 'waitstart')::pg_catalog.timestamptz, a.state_change),
	coalesce(a.state, ''), CASE WHEN a.backend_start IS NULL THEN '' ELSE pg_catalog.left(coalesce(a.query, ''), 1000) END,
	pg_catalog.quote_ident(current_user)
	FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) l.pid
	WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory'
	AND l.database OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
	ORDER BY NOT l.granted, l.classid, l.objid, l.objsubid, l.pid`

func (c *checker) pgHolders(ctx context.Context) (found []Holder, err error) {
	rows, err := c.first.QueryContext(ctx, pgHolders, c.first.plain...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		h := Holder{Kind: kindAdvisory.String()}
		var waitsFor, me string
		var connected, since sql.NullTime
		err := rows.Scan(&h.Key, &h.Shared, &h.Waiting, &waitsFor, &h.PID, &h.User, &h.Application, &h.Client, &connected, &since, &h.State, &h.Statement, &me)
		if err != nil {
			return nil, err
		}
		h.Connected, h.Since, h.WaitsFor = connected.Time, since.Time, numbers(waitsFor)
		if !connected.Valid && h.PID != 0 {
			h.Hidden = fmt.Sprintf("it is another role's session: GRANT pg_read_all_stats TO %s", me)
		}
		found = append(found, h)
	}
	return found, rows.Err()
}

func numbers(text string) (list []int64) {
	for _, field := range strings.Fields(text) {
		if n, err := strconv.ParseInt(field, 10, 64); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// mysqlHolders: a lock's rows know threads, and threads know sessions.
const mysqlHolders = `SELECT m.OBJECT_NAME, m.LOCK_STATUS = 'PENDING', COALESCE(t.PROCESSLIST_ID, 0), COALESCE(t.PROCESSLIST_USER, ''),
	COALESCE((SELECT MAX(p.ATTR_VALUE) FROM performance_schema.session_connect_attrs p WHERE p.PROCESSLIST_ID = t.PROCESSLIST_ID AND p.ATTR_NAME = 'program_name'), ''),
	COALESCE(t.PROCESSLIST_HOST, ''), COALESCE(t.PROCESSLIST_TIME, 0), COALESCE(t.PROCESSLIST_COMMAND, ''),
	COALESCE(LEFT(COALESCE(t.PROCESSLIST_INFO, (SELECT MAX(s.SQL_TEXT) FROM performance_schema.events_statements_current s WHERE s.THREAD_ID = t.THREAD_ID)), 1000), '')
	FROM performance_schema.metadata_locks m LEFT JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID
	WHERE m.OBJECT_TYPE = 'USER LEVEL LOCK' ORDER BY 2, 1, 3`

// mariadbHolders takes sessions from the process list, as others than MariaDB need not: nothing else shows them without a risk
// to the server, which fell once when its performance schema was asked for statements and attributes.
const mariadbHolders = `SELECT m.OBJECT_NAME, m.LOCK_STATUS = 'PENDING', COALESCE(t.PROCESSLIST_ID, 0), COALESCE(p.USER, ''), '', COALESCE(p.HOST, ''),
	COALESCE(p.TIME, 0), COALESCE(p.COMMAND, ''), COALESCE(LEFT(p.INFO, 1000), '')
	FROM performance_schema.metadata_locks m LEFT JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID
	LEFT JOIN information_schema.PROCESSLIST p ON p.ID = t.PROCESSLIST_ID
	WHERE m.OBJECT_TYPE = 'USER LEVEL LOCK' ORDER BY 2, 1, 3`

// pluginHolders is for a MariaDB with the plugin only. Who waits is read off the process list, the name off the statement.
const pluginHolders = `SELECT * FROM (
	SELECT m.TABLE_SCHEMA AS name, 0 AS waiting, m.THREAD_ID AS id, COALESCE(p.USER, ''), '', COALESCE(p.HOST, ''), COALESCE(p.TIME, 0), COALESCE(p.COMMAND, ''), COALESCE(LEFT(p.INFO, 1000), '')
	FROM information_schema.METADATA_LOCK_INFO m LEFT JOIN information_schema.PROCESSLIST p ON p.ID = m.THREAD_ID WHERE m.LOCK_TYPE = 'User lock'
	UNION ALL SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(COALESCE(p.INFO, ''), '''', 2), '''', -1), 1, p.ID, p.USER, '', p.HOST, p.TIME, p.COMMAND, COALESCE(LEFT(p.INFO, 1000), '')
	FROM information_schema.PROCESSLIST p WHERE p.STATE = 'User lock') w ORDER BY waiting, name, id`

func (c *checker) mysqlHolders(ctx context.Context) ([]Holder, error) {
	query, err := c.mysqlSource(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := c.first.QueryContext(ctx, query)
	if err != nil {
		return nil, mysqlGrant(err)
	}
	defer rows.Close()
	var found []Holder
	for rows.Next() {
		h := Holder{Kind: kindNamed.String()}
		var seconds int64
		if err := rows.Scan(&h.Key, &h.Waiting, &h.PID, &h.User, &h.Application, &h.Client, &seconds, &h.State, &h.Statement); err != nil {
			return nil, err
		}
		if h.User == "" && h.PID != 0 {
			h.Hidden = "it is another user's session: GRANT PROCESS ON *.* shows it"
			found = append(found, h)
			continue
		}
		h.Since = time.Now().Add(-time.Duration(seconds) * time.Second).Truncate(time.Second)
		found = append(found, h)
	}
	return withWaits(found), rows.Err()
}

func perServer(kind string) string {
	if kind == "MariaDB" {
		return mariadbHolders
	}
	return mysqlHolders
}

// withWaits: a named lock has one holder, whom all others wait for.
func withWaits(found []Holder) []Holder {
	holder := map[string]int64{}
	for i, h := range found {
		if !h.Waiting {
			holder[h.Key] = h.PID
		} else if pid := holder[h.Key]; pid != 0 {
			found[i].WaitsFor = []int64{pid}
		}
	}
	return found
}

// mysqlSource says where this server shows its named locks.
func (c *checker) mysqlSource(ctx context.Context) (query string, err error) {
	schema, recorded, err := c.performanceSchema(ctx)
	if err == nil && recorded {
		return perServer(c.found.Server.Kind), nil
	}
	var plugin bool
	e := c.first.QueryRowContext(ctx, "SELECT COUNT(*) > 0 FROM information_schema.PLUGINS"+
		" WHERE PLUGIN_NAME = 'METADATA_LOCK_INFO' AND PLUGIN_STATUS = 'ACTIVE'").Scan(&plugin)
	switch {
	case e == nil && plugin:
		return pluginHolders, nil
	case err != nil:
		return "", mysqlGrant(err)
	}
	return "", noSource(c.found.Server.Kind, schema)
}

// performanceSchema says whether it is on and whether it records metadata locks, of which named locks are one kind.
func (c *checker) performanceSchema(ctx context.Context) (on, recorded bool, err error) {
	if err = c.first.QueryRowContext(ctx, "SELECT @@performance_schema").Scan(&on); err != nil || !on {
		return on, false, err
	}
	err = c.first.QueryRowContext(ctx, "SELECT ENABLED = 'YES' FROM performance_schema.setup_instruments WHERE NAME = 'wait/lock/metadata/sql/mdl'").Scan(&recorded)
	return on, recorded, err
}

func noSource(kind string, schema bool) error {
	const instrument = "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'wait/lock/metadata/sql/mdl', for locks taken from then on"
	switch {
	case schema:
		return fmt.Errorf("%w: this server does not record who holds named locks: %s", ErrUnsupported, instrument)
	case kind == "MariaDB":
		return fmt.Errorf("%w: this server does not show who holds named locks: INSTALL SONAME 'metadata_lock_info', or start it with performance_schema=ON and performance-schema-instrument='wait/lock/metadata/sql/mdl=ON'", ErrUnsupported)
	}
	return fmt.Errorf("%w: this server does not show who holds named locks: start it with performance_schema=ON", ErrUnsupported)
}

// mysqlGrant names the grant that a refused question takes.
func mysqlGrant(err error) error {
	switch native.ErrorNumber(err) {
	case 1044, 1142, 1143, 1227:
		return fmt.Errorf("it takes GRANT SELECT ON performance_schema.* to see who holds named locks: %w", err)
	}
	return err
}
