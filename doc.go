// Package sqllock makes database session locks safe to use through a database/sql pool.
//
// A session lock (a PostgreSQL advisory lock, a MySQL or MariaDB named lock) belongs to a physical connection, and a
// pool hands those around: forget one unlock, and the connection goes back to the pool still holding the lock, while
// everybody else is locked out. The guarded driver tracks the session locks of each physical connection and
// discards a connection that comes back still holding one:
//
//	import _ "github.com/sqllock/sqllock/pgxlock" // registers "pgx-sqllock"; mysqllock registers "mysql-sqllock"
//
//	db, err := sql.Open("pgx-sqllock", dsn) // was: sql.Open("pgx", dsn)
//
// # Keep or discard
//
// When a connection comes back to the pool, in this order:
//
//   - the driver itself says that it is not valid: that stands, and nothing is sent;
//   - something is unverified: the server is asked, within one bound (by default a second). Clean: the connection is
//     kept. Not clean: a leak. No answer, or nothing to ask: discarded and reported as [Unverified];
//   - something is held: a [Leak], reported; then the [Policy] decides, by default [Discard];
//   - otherwise it is kept, without I/O.
//
// Discard means that the session ends, whatever pool lies below the driver.
//
// A lock is followed exactly, and nothing is ever asked, where calls are sent in their plain form: a query whose
// whole select list is one lock call, with literal or parameter keys, whose row is read. Everything else that may take
// a lock makes the session unverified.
//
// # Locks
//
// [Run] runs a job while it holds a session lock of [NewPostgres] or [NewMySQL]; [RunExclusive] runs a short one in a transaction
// that holds a PostgreSQL transaction lock. They need no guarded driver. No lock survives a failover of its server.
//
// # Before anything depends on it
//
// [Check] says whether a server, and what is in front of it, is fit for session locks: they silently stop working behind a pooler in
// transaction mode and on a replica. [Holders] shows who holds what.
//
// # What text cannot show
//
// Locks that are taken inside of functions, procedures, triggers and views are not seen, nor is a function of one's own that
// stands before the server's in search_path: [WithLockFunctions] names one's own locking functions, and
// WithProbe([ProbeAlways]) asks at every return, for one round trip each.
//
// # Files
//
//   - driver.go: Wrap, WrapConnector, OpenDB; conn.go: the guarded connection and its direct lane
//   - prefilter.go, lexer.go, statement.go: statement text -> what it may do to the session's locks
//   - lane.go, observation.go, laterresults.go: the observed lane, where one statement's result is followed
//   - holdtable.go, holdchange.go, settle.go: what one physical connection holds
//   - leakguard.go, session.go: keep or discard; the few statements of the guard's own
//   - report.go, pool.go, option.go: what users see and set
//   - key.go, lock.go, locker.go, lockeroption.go: keys, Lock and Run, what both databases' lockers share
//   - turn.go: who of a process deals with a key
//   - conn_pin.go, request.go, pin_serve.go, pin_watch.go: a pinned connection with its locks; pinpool.go: who may have one
//   - pglock.go, pgbatch.go, mylock.go, mybatch.go, txlock.go, onconn.go: the SQL of the lockers
//   - check.go, check_postgres.go, check_mysql.go, findings.go: Check; pooler.go: its experiments; holders.go: Holders
//   - jobs: a job once per slot, leaders; cmd/sqllock: the command
package sqllock
