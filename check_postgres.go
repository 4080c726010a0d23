package sqllock

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// postgres looks at a server of PostgreSQL's family.
func (c *checker) postgres(ctx context.Context) error {
	if f, stop := refuseKind(c.found.Server); stop {
		c.add(f)
		return nil
	}
	facts, err := c.pgFacts(ctx)
	if err != nil {
		return err
	}
	c.found.Standby = facts.standby
	if err := c.throughPooler(ctx); err != nil {
		return err
	}
	c.found.List = append(c.found.List, facts.judge(c.db.Stats().MaxOpenConnections)...)
	return nil
}

// refuseKind names the servers that are known to accept the lock functions and not to lock.
func refuseKind(s Server) (f Finding, refused bool) {
	if s.Kind != "CockroachDB" && s.Kind != "Redshift" {
		return f, false
	}
	return Finding{
		Severity: SeverityError, Topic: "server", Seen: s.Kind + " has no advisory locks",
		Why:    "its functions of that name, where it has them, lock nothing: everybody wins",
		Remedy: "lock a row of a table, or use a PostgreSQL for the locks",
	}, true
}

// pgFacts are what a PostgreSQL says of itself. Settings are numbers in milliseconds or seconds, as pg_settings has them.
type pgFacts struct {
	standby         bool
	locks, sessions int64
	settings        map[string]string
}

func (f *pgFacts) number(setting string) int64 {
	n, _ := strconv.ParseInt(f.settings[setting], 10, 64)
	return n
}

func (c *checker) pgFacts(ctx context.Context) (*pgFacts, error) {
	f := &pgFacts{settings: map[string]string{}}
	err := c.first.QueryRowContext(ctx, "SELECT pg_catalog.pg_is_in_recovery(),"+
		" (SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks WHERE NOT fastpath),"+
		" (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type OPERATOR(pg_catalog.=) 'client backend')",
		c.first.plain...).Scan(&f.standby, &f.locks, &f.sessions)
	if err != nil {
		return nil, err
	}
	rows, err := c.first.QueryContext(ctx, "SELECT name, setting FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) ANY (ARRAY["+
		"'default_transaction_read_only', 'idle_session_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout', 'tcp_keepalives_idle',"+
		" 'tcp_keepalives_interval', 'tcp_keepalives_count', 'max_locks_per_transaction', 'max_connections', 'max_prepared_transactions'])", c.first.plain...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, setting string
		if err := rows.Scan(&name, &setting); err != nil {
			return nil, err
		}
		f.settings[name] = setting
	}
	return f, rows.Err()
}

// judge says what the facts mean for locks.
func (f *pgFacts) judge(poolLimit int) []Finding {
	found := []Finding{f.lockTable()}
	if f.standby {
		found = append(found, Finding{
			Severity: SeverityError, Topic: "standby", Seen: "this server is a standby",
			Why:    "its advisory locks are its own: every replica lets its own holder win",
			Remedy: "connect to the primary: target_session_attrs=primary, or read-write",
		})
	} else if f.settings["default_transaction_read_only"] == "on" {
		found = append(found, Finding{
			Severity: SeverityWarning, Topic: "standby", Seen: "default_transaction_read_only is on",
			Why:    "locks work, but a job under RunExclusive cannot write",
			Remedy: "ALTER ROLE ... RESET default_transaction_read_only for the role that runs jobs",
		})
	}
	found = append(found, f.timeouts()...)
	if limit := f.number("max_connections"); limit > 0 && int64(poolLimit) >= limit {
		found = append(found, Finding{
			Severity: SeverityWarning, Topic: "pool", Seen: fmt.Sprintf("the pool may open %d connections, the server takes %d", poolLimit, limit),
			Why:    "where the server refuses a connection, an acquire fails",
			Remedy: "lower SetMaxOpenConns, times the number of replicas, below max_connections",
		})
	}
	return found
}

// lockTable: past its room every session of the server suffers. The server does not say its size; this is how it computes it.
func (f *pgFacts) lockTable() Finding {
	room := f.number("max_locks_per_transaction") * (f.number("max_connections") + f.number("max_prepared_transactions"))
	seen := fmt.Sprintf("%d of about %d locks are taken, %d of %d connections", f.locks, room, f.sessions, f.number("max_connections"))
	if f.locks <= room/2 {
		return Finding{Severity: SeverityInfo, Topic: "lock table", Seen: seen}
	}
	return Finding{
		Severity: SeverityWarning, Topic: "lock table", Seen: seen,
		Why:    "past its room every session that needs a lock fails with 53200",
		Remedy: "find who holds so many (sqllock holders), or raise max_locks_per_transaction",
	}
}

// timeouts are the settings that end a session, or a transaction, that holds a lock.
func (f *pgFacts) timeouts() (found []Finding) {
	for _, t := range []struct{ setting, cuts, remedy string }{
		{"idle_session_timeout", "a session that holds a lock and sends nothing for so long is ended, and the lock is lost: not those of sqllock's lockers, which keep theirs alive",
			"take locks through sqllock's lockers, or set it to 0 for the role that holds locks"},
		{"idle_in_transaction_session_timeout", "a job under RunExclusive that does other work than SQL for so long loses its transaction and the lock",
			"use Run for such jobs, or set it to 0 for the role that runs them"},
		{"transaction_timeout", "a job under RunExclusive that takes so long loses its transaction and the lock",
			"use Run for long jobs, or set it to 0 for the role that runs them"},
	} {
		if ms := f.number(t.setting); ms > 0 {
			found = append(found, Finding{
				Severity: SeverityWarning, Topic: "time-out",
				Seen: fmt.Sprintf("%s is %v", t.setting, time.Duration(ms)*time.Millisecond), Why: t.cuts, Remedy: t.remedy,
			})
		}
	}
	if idle := f.number("tcp_keepalives_idle"); idle > 0 { // 0 where there is no TCP
		dead := time.Duration(idle+f.number("tcp_keepalives_interval")*f.number("tcp_keepalives_count")) * time.Second
		found = append(found, Finding{
			Severity: SeverityInfo, Topic: "time-out", Seen: fmt.Sprintf("by TCP keepalives the server notices after %v that a client's host has vanished", dead),
			Why:    "that long a lock that was taken by hand stays with it; a locker's silence bound is " + DefaultSilenceBound.String(),
			Remedy: "take locks through sqllock's lockers, or lower tcp_keepalives_idle",
		})
	}
	return found
}

// throughPooler looks for a pooler, and tries whether the server's locks exclude.
func (c *checker) throughPooler(ctx context.Context) error {
	now, err := c.first.session(ctx, c.first)
	if err != nil {
		return err
	}
	certain := c.first.pid != 0 && c.first.pid != now.pid
	second, err := c.second(ctx)
	if err != nil {
		return c.noSecond(ctx, certain, err)
	}
	defer second.close()
	mode, err := (&experiment{clients: [2]*client{c.first, second}, reopen: c.second}).mode(ctx, certain)
	if err != nil {
		return c.noSecond(ctx, certain, err)
	}
	c.found.Pooler = mode
	c.pooler(mode)
	if mode == PoolerStatement || c.found.Standby {
		return nil
	}
	return c.exclusion(ctx, second)
}

// noSecond: a pool, a pooler or a server that has no second connection to spare is a finding; anything else is an error.
func (c *checker) noSecond(ctx context.Context, certain bool, err error) error {
	if ctx.Err() != nil || !errors.Is(err, errTwoClients) {
		return err
	}
	if certain {
		c.found.Pooler = PoolerUnknown
		c.pooler(PoolerUnknown)
		return nil
	}
	c.add(Finding{
		Severity: SeverityWarning, Topic: "pool", Seen: "no second connection could be had within " + poolerPatience.String(),
		Why:    "whether a pooler is in between and whether locks exclude could not be tried; a locker needs a connection besides the work's",
		Remedy: "try again when the pool, or the server, is less busy",
	})
	return nil
}

// pooler says what a mode means.
func (c *checker) pooler(mode PoolerMode) {
	f := Finding{Severity: SeverityError, Topic: "pooler", Seen: c.found.seenPooler()}
	switch mode {
	case PoolerNone:
		return
	case PoolerSession:
		f.Severity = SeverityInfo
		f.Why = "session locks work: a client keeps its server connection"
	case PoolerTransaction:
		f.Why = "a session lock stays on a server connection that others then use, and its unlock goes elsewhere"
		f.Remedy = poolerRemedy
		if c.first.dialect == DialectMySQL {
			f.Remedy = "give the locker a *sql.DB of its own that connects to the server itself"
		}
		if c.transactionLocks {
			f.Severity, f.Remedy = SeverityInfo, ""
			f.Why = "transaction locks work; session locks would not"
		}
	case PoolerStatement:
		f.Why = "there are no transactions, so that neither session nor transaction locks can work"
		f.Remedy = "connect to the server itself, or to a pool in transaction mode for RunExclusive"
	case PoolerUnknown:
		f.Severity = SeverityWarning
		f.Why = "in transaction mode a session lock stays on a server connection that others then use; it gave no second connection within " + poolerPatience.String()
		f.Remedy = "try again when it is less busy"
	}
	c.add(f)
	c.statementCache(mode)
}

const poolerRemedy = "use RunExclusive, whose transaction locks work through it, or give the locker a *sql.DB of its own that connects to the server itself"

func (f *Findings) seenPooler() string {
	switch f.Pooler {
	case PoolerUnknown:
		return "a pooler is between this program and the server"
	default:
		return fmt.Sprintf("a pooler in %s mode is between this program and the server", f.Pooler)
	}
}

// statementCache: prepared statements' names belong to a server connection, not to the client.
func (c *checker) statementCache(mode PoolerMode) {
	if c.native.Caches == nil || mode == PoolerSession || c.native.Caches() == "" {
		return
	}
	c.add(Finding{
		Severity: SeverityWarning, Topic: "statement cache", Seen: c.native.Caches(),
		Why:    "the driver names prepared statements that the pooler's next client meets: 42P05 or 26000, unless the pooler follows them (PgBouncer 1.21 with max_prepared_statements)",
		Remedy: "default_query_exec_mode=exec in the DSN",
	})
}

// exclusion tries whether a second session is kept from what a first one holds, by transaction locks.
func (c *checker) exclusion(ctx context.Context, second *client) error {
	first, other, err := c.tryBoth(ctx, second)
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, errTwoClients):
		return c.noSecond(ctx, false, err)
	case sqlState(err) == "0A000", sqlState(err) == "42883":
		c.add(Finding{
			Severity: SeverityError, Topic: "exclusion", Seen: "the server has no advisory locks: " + err.Error(),
			Why: "no lock can be taken here", Remedy: "use a PostgreSQL for the locks",
		})
		return nil
	case err != nil:
		return err
	case first && other:
		c.add(notExclusive)
	}
	return nil
}

var notExclusive = Finding{
	Severity: SeverityError, Topic: "exclusion", Seen: "two sessions were given the same lock at once",
	Why: "the server accepts the statements and does not lock: everybody wins", Remedy: "use a server that does for the locks",
}

// tryBoth lets two transactions try one random key.
func (c *checker) tryBoth(ctx context.Context, second *client) (first, other bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, poolerPatience)
	defer cancel()
	query := fmt.Sprintf("SELECT pg_catalog.pg_try_advisory_xact_lock(%d)", randomKey())
	got := [2]bool{}
	for i, cl := range []*client{c.first, second} {
		tx, err := cl.BeginTx(ctx, experimentTx)
		if err == nil {
			defer tx.Rollback()
			err = tx.QueryRowContext(ctx, query, cl.plain...).Scan(&got[i])
		}
		if err != nil {
			return false, false, stepError(ctx, err)
		}
	}
	return got[0], got[1], nil
}

func randomKey() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return int64(binary.BigEndian.Uint64(b[:]))
}
