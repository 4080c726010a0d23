package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/sqllock/sqllock/internal/native"
)

// Check looks whether what db connects to is fit for session locks, before anything depends on it: the server's kind, whether it is
// a standby or a cluster's node, whether its locks exclude, whether a pooler is in between and in which mode, what would cut a holder,
// and how the pool is set. It sends questions, and tries two locks of random keys for a moment: no session lock on PostgreSQL.
// It takes two connections, one of which may be beyond the pool's limit, and tens of round trips. ctx bounds it, and it bounds each of its own waits.
//
// What could be seen is in Findings also where err is not nil: the server could then not be reached, or not be asked everything.
func Check(ctx context.Context, db *sql.DB, opts ...CheckOption) (Findings, error) {
	c := &checker{db: db}
	if db == nil {
		return c.found, errors.New("sqllock: check: the *sql.DB is nil")
	}
	for _, o := range opts {
		if o != nil {
			o.applyCheck(c)
		}
	}
	if err := c.run(ctx); err != nil {
		return c.found, fmt.Errorf("sqllock: check: %w", joinContext(ctx, err))
	}
	return c.found, nil
}

// A CheckOption changes what [Check] looks for.
type CheckOption interface{ applyCheck(*checker) }

type checkOption func(*checker)

func (f checkOption) applyCheck(c *checker) { f(c) }

// ForTransactionLocks says that the program takes no session locks: it uses [RunExclusive] and the functions beside it. A pooler in
// transaction mode, or a pool of one connection, is then no error.
func ForTransactionLocks() CheckOption {
	return checkOption(func(c *checker) { c.transactionLocks = true })
}

// A checker does one Check.
type checker struct {
	db               *sql.DB
	transactionLocks bool
	first            *client
	guard            *conn
	native           native.Abilities
	found            Findings
}

func (c *checker) run(ctx context.Context) (err error) {
	if c.first, err = c.connect(ctx); err != nil {
		return err
	}
	defer func() { c.first.close() }()
	if err := c.identify(ctx); err != nil {
		return err
	}
	c.checkGuard()
	c.checkPool()
	if c.first.dialect == DialectMySQL {
		err = c.mysql(ctx)
	} else {
		err = c.postgres(ctx)
	}
	c.found.sort()
	return err
}

// connect takes a connection of the pool, for which it waits as long as a locker would.
func (c *checker) connect(ctx context.Context) (*client, error) {
	conn, err := (&locker{db: c.db}).connect(ctx)
	if err != nil {
		return nil, err
	}
	cl := &client{Conn: conn, close: func() { conn.Close() }}
	err = conn.Raw(func(dc any) error {
		var hidden bool
		if c.guard, c.native, hidden = beneath(dc); hidden {
			c.add(validatorHidden)
		}
		return nil
	})
	cl.use(c.native)
	return cl, err
}

func (c *client) use(a native.Abilities) {
	for _, v := range a.PlainArgs {
		c.plain = append(c.plain, v.Value)
	}
	if a.PID != nil {
		c.pid = int64(a.PID())
	}
}

// beneath finds the guard also under wrappers of others, and says whether those hide its IsValid.
func beneath(dc any) (g *conn, a native.Abilities, hidden bool) {
	_, valid := dc.(driver.Validator)
	for d := dc; ; {
		if g, a = behind(d); g != nil {
			return g, a, !valid
		}
		w, ok := d.(interface{ Raw() driver.Conn })
		if !ok {
			return nil, a, false
		}
		d = w.Raw()
	}
}

// identify finds out what answers.
func (c *checker) identify(ctx context.Context) error {
	var text string
	if err := c.first.QueryRowContext(ctx, "SELECT version()", c.first.plain...).Scan(&text); err != nil {
		return err
	}
	c.found.Server, c.first.dialect = identify(text)
	return nil
}

// kinds are what servers are called by what their versions have in them: the first that fits.
var kinds = []struct {
	sign, kind string
	dialect    Dialect
}{
	{"CockroachDB", "CockroachDB", DialectPostgres},
	{"-YB-", "YugabyteDB", DialectPostgres},
	{"Redshift", "Redshift", DialectPostgres},
	{"PostgreSQL", "PostgreSQL", DialectPostgres},
	{"TiDB", "TiDB", DialectMySQL},
	{"Vitess", "Vitess", DialectMySQL},
	{"MariaDB", "MariaDB", DialectMySQL},
	{"", "MySQL", DialectMySQL},
}

var versionNumber = regexp.MustCompile(`v?\d+(\.\d+)+`)

// identify reads what version() answers, which both families have.
func identify(version string) (Server, Dialect) {
	for _, k := range kinds {
		at := strings.Index(version, k.sign)
		if at < 0 {
			continue
		}
		number := versionNumber.FindString(version[at:])
		if number == "" { // it stands before the name
			number = versionNumber.FindString(version)
		}
		return Server{Kind: k.kind, Version: strings.TrimPrefix(number, "v"), Text: version}, k.dialect
	}
	return Server{}, 0 // not reached: the last sign fits all
}

func (c *checker) add(f Finding) { c.found.List = append(c.found.List, f) }

// second opens another connection to the same server: beyond the pool where the driver can, or else another of the pool's.
func (c *checker) second(ctx context.Context) (*client, error) {
	return sibling(ctx, c.db, c.native, c.first)
}

func sibling(ctx context.Context, db *sql.DB, a native.Abilities, of *client) (*client, error) {
	ctx, cancel := context.WithTimeout(ctx, poolerPatience)
	defer cancel()
	cl := &client{dialect: of.dialect, plain: of.plain}
	end := func() {}
	if a.Sibling != nil {
		db = sql.OpenDB(a.Sibling)
		end = func() { db.Close() }
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		end()
		return nil, stepError(ctx, err)
	}
	cl.Conn, cl.close = conn, func() { conn.Close(); end() }
	return cl, nil
}

var validatorHidden = Finding{
	Severity: SeverityWarning, Topic: "guard",
	Seen:   "a wrapper around the guarded driver hides its IsValid",
	Why:    "a leaked lock is found only when its connection is next used, not when it comes back",
	Remedy: "put sqllock outermost: wrap the other wrapper's driver with sqllock.Wrap",
}

// checkGuard: an unguarded pool is a choice where all locks are taken through lockers.
func (c *checker) checkGuard() {
	if c.guard != nil {
		c.add(Finding{Severity: SeverityInfo, Topic: "guard", Seen: "the pool's driver is guarded"})
		return
	}
	c.add(Finding{
		Severity: SeverityInfo, Topic: "guard", Seen: "the pool's driver is not guarded",
		Why:    "a session lock that is taken by hand and not released stays on its connection in the pool; sqllock's lockers do not need the guard",
		Remedy: `open the pool as "pgx-sqllock" or "mysql-sqllock", or with sqllock.OpenDB`,
	})
}

// checkPool looks at the pool's settings, and at what its use so far says about them.
func (c *checker) checkPool() {
	s := c.db.Stats()
	if s.MaxOpenConnections == 1 && !c.transactionLocks {
		c.add(Finding{
			Severity: SeverityError, Topic: "pool", Seen: "the pool may open 1 connection",
			Why:    "a locker never takes the last one, which the work under the lock needs: every acquire fails with ErrPoolTooSmall",
			Remedy: "SetMaxOpenConns(2) at least, or a *sql.DB of the locker's own",
		})
	}
	if s.WaitCount > 0 {
		c.add(Finding{
			Severity: SeverityWarning, Topic: "pool",
			Seen:   fmt.Sprintf("%d times somebody waited for one of the pool's %d connections, %v in all", s.WaitCount, s.MaxOpenConnections, s.WaitDuration.Round(time.Millisecond)),
			Why:    "a pinned connection is one less for everybody else, and who holds a lock while waiting for a connection makes others wait for the lock",
			Remedy: "raise SetMaxOpenConns, or give the locker a *sql.DB of its own",
		})
	}
}
