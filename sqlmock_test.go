package sqllock_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/DATA-DOG/go-sqlmock"
	"go.uber.org/goleak"

	"github.com/sqllock/sqllock"
)

// What it takes to run the tests that a program has with sqlmock on a guarded pool: the mock's driver is
// registered once more, guarded, and then the name in sql.Open changes.
func init() {
	mocks, err := sql.Open("sqlmock", "")
	if err != nil {
		panic(err)
	}
	sql.Register("sqlmock-sqllock", sqllock.Wrap(mocks.Driver(), sqllock.WithDialect(sqllock.DialectPostgres)))
	_ = mocks.Close()
}

func TestSwappedDriverName(t *testing.T) {
	dsn := fmt.Sprint("jobs", mockDSN.Add(1))
	plain, mock, err := sqlmock.NewWithDSN(dsn) // as ever
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlmock-sqllock", dsn) // was: the pool that NewWithDSN returns
	if err != nil {
		t.Fatal(err)
	}

	mock.ExpectQuery(`SELECT pg_try_advisory_lock\(\$1\)`).WithArgs(42).WillReturnRows(sqlmock.NewRows([]string{"ok"}).AddRow(true))
	mock.ExpectExec(`UPDATE accounts`).WillReturnResult(sqlmock.NewResult(0, 1))
	mock.ExpectQuery(`SELECT pg_advisory_unlock\(\$1\)`).WithArgs(42).WillReturnRows(sqlmock.NewRows([]string{"ok"}).AddRow(true))
	mock.ExpectClose()
	mock.ExpectClose()

	if err := nightlyJob(t.Context(), db); err != nil {
		t.Error(err)
	}
	if err := errors.Join(db.Close(), plain.Close(), mock.ExpectationsWereMet()); err != nil {
		t.Error(err)
	}
}

// nightlyJob is a user's code: only one of the replicas does the work.
func nightlyJob(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var locked bool
	if err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", 42).Scan(&locked); err != nil || !locked {
		return err
	}
	_, err = conn.ExecContext(ctx, "UPDATE accounts SET balance = balance")
	return errors.Join(err, conn.QueryRowContext(ctx, "SELECT pg_advisory_unlock($1)", 42).Scan(&locked))
}

// A conversation is what a program says to the server, and what the server answers.
type conversation struct {
	name    string
	dialect sqllock.Dialect
	opts    []sqllock.Option
	program func(ctx context.Context, db *sql.DB) error
	script  func(sqlmock.Sqlmock)
	guards  func(sqlmock.Sqlmock) // what the guard adds
	closed  bool                  // by the guard
	reports string
}

const (
	pg = sqllock.DialectPostgres
	my = sqllock.DialectMySQL
)

var mockDSN atomic.Int64

// hold runs the conversation on a guarded pool or on a plain one, where the guard adds nothing.
func (c conversation) hold(t *testing.T, guarded bool) {
	already := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, already) })
	dsn := fmt.Sprint("conversation", mockDSN.Add(1))
	plain, mock, err := sqlmock.NewWithDSN(dsn, sqlmock.QueryMatcherOption(sqlmock.QueryMatcherEqual))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	var reports []string
	var unexpected []error
	db := plain
	if guarded {
		report := sqllock.WithReport(func(r sqllock.Report) { reports = append(reports, fmt.Sprint(r.Kind, " ", r.Action, " ", r.Holds)) })
		opts := append([]sqllock.Option{sqllock.WithDialect(c.dialect), report}, c.opts...)
		db = sqllock.OpenDB(mockConnector{plain.Driver(), dsn, &unexpected}, opts...)
	}
	c.script(mock)
	if guarded && c.guards != nil {
		c.guards(mock)
	}
	if !c.closed || !guarded {
		mock.ExpectClose()
	}
	if err := errors.Join(c.program(t.Context(), db), db.Close(), mock.ExpectationsWereMet()); err != nil {
		t.Error(err)
	}
	if len(unexpected) > 0 {
		t.Errorf("the mock did not expect: %v", unexpected)
	}
	if got := strings.Join(reports, ", "); guarded && got != c.reports {
		t.Errorf("reports %q, want %q", got, c.reports)
	}
	mock.ExpectClose() // for plain, which sqlmock itself has used
}

// mockConnector connects to a sqlmock and notes what the mock did not expect: the guard ignores such
// errors, because it does its best before it ends a session.
type mockConnector struct {
	driver     driver.Driver
	dsn        string
	unexpected *[]error
}

func (c mockConnector) Driver() driver.Driver { return c.driver }
func (c mockConnector) Connect(context.Context) (driver.Conn, error) {
	own, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return mockConn{own, own.(driver.QueryerContext), own.(driver.ExecerContext), own.(driver.ConnPrepareContext), own.(driver.ConnBeginTx), own.(driver.NamedValueChecker), c.unexpected}, nil
}

type mockConn struct {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.NamedValueChecker
	unexpected *[]error
}

func (c mockConn) note(err error) {
	if err != nil && !errors.Is(err, errScripted) {
		*c.unexpected = append(*c.unexpected, err)
	}
}

func (c mockConn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.QueryerContext.QueryContext(ctx, q, args)
	c.note(err)
	return rows, err
}

func (c mockConn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	res, err := c.ExecerContext.ExecContext(ctx, q, args)
	c.note(err)
	return res, err
}

// errScripted is an error that a conversation's script asks for.
var errScripted = errors.New("canceling statement due to statement timeout")

// says is a program that sends queries, one after the other, on a pinned connection.
func says(queries ...string) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		for _, q := range queries {
			var v any
			err = errors.Join(err, conn.QueryRowContext(ctx, q).Scan(&v))
		}
		return errors.Join(err, conn.Close())
	}
}

// does is a program that executes statements, one after the other, on a pinned connection.
func does(statements ...string) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		for _, s := range statements {
			_, e := conn.ExecContext(ctx, s)
			err = errors.Join(err, e)
		}
		return errors.Join(err, conn.Close())
	}
}

func answers(m sqlmock.Sqlmock, query string, value any) {
	m.ExpectQuery(query).WillReturnRows(sqlmock.NewRows([]string{"value"}).AddRow(value))
}

func accepts(m sqlmock.Sqlmock, statements ...string) {
	for _, s := range statements {
		m.ExpectExec(s).WillReturnResult(sqlmock.NewResult(0, 0))
	}
}

// fails is a program that sends a query and does not mind what becomes of it.
func fails(query string) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		var v any
		_ = db.QueryRowContext(ctx, query).Scan(&v)
		return nil
	}
}

// expectProbe is the guard's question to PostgreSQL.
func expectProbe(m sqlmock.Sqlmock) *sqlmock.ExpectedQuery {
	return m.ExpectQuery("SELECT classid::pg_catalog.int8, objid::pg_catalog.int8, objsubid::pg_catalog.int8, mode::pg_catalog.text" +
		" FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory'" +
		" AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND granted LIMIT 100")
}

// probe is the same, answered: nothing is held.
func probe(m sqlmock.Sqlmock) {
	expectProbe(m).WillReturnRows(sqlmock.NewRows([]string{"classid", "objid", "objsubid", "mode"}))
}

// What the guard sends before it ends a session.
func pgEnd(m sqlmock.Sqlmock) {
	accepts(m, "ROLLBACK", "SELECT pg_catalog.pg_advisory_unlock_all()")
	m.ExpectClose()
}

func myEnd(m sqlmock.Sqlmock) {
	accepts(m, "ROLLBACK", "UNLOCK TABLES")
	answers(m, "SELECT RELEASE_ALL_LOCKS()", 0)
	m.ExpectClose()
}

// The plain forms, as people and tools send them: nothing is added, so that a test's script holds as it is.
func TestPlainConversations(t *testing.T) {
	for _, c := range []conversation{
		{name: "try, granted", dialect: pg, program: says("SELECT pg_try_advisory_lock(1)", "SELECT pg_advisory_unlock(1)"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT pg_try_advisory_lock(1)", true)
			answers(m, "SELECT pg_advisory_unlock(1)", true)
		}},
		{name: "try, busy", dialect: pg, program: says("SELECT pg_try_advisory_lock(1)"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT pg_try_advisory_lock(1)", false)
		}},
		{name: "try, busy, on the pool", dialect: pg, program: func(ctx context.Context, db *sql.DB) error {
			var ok bool
			return db.QueryRowContext(ctx, "SELECT pg_try_advisory_lock(1)").Scan(&ok)
		}, script: func(m sqlmock.Sqlmock) { answers(m, "SELECT pg_try_advisory_lock(1)", "f") }},
		{name: "blocking, read", dialect: pg, program: says("SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT pg_advisory_lock(1)", "")
			answers(m, "SELECT pg_advisory_unlock(1)", true)
		}},
		{name: "blocking, executed", dialect: pg, program: does("SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)")
		}},
		{name: "stacked, released at once", dialect: pg, program: does("SELECT pg_advisory_lock(1)", "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock_all()"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock_all()")
		}},
		{name: "in a transaction", dialect: pg, program: func(ctx context.Context, db *sql.DB) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", 1)
			_, err2 := tx.ExecContext(ctx, "UPDATE t SET n = 1")
			return errors.Join(err, err2, tx.Commit())
		}, script: func(m sqlmock.Sqlmock) {
			m.ExpectBegin()
			m.ExpectExec("SELECT pg_advisory_xact_lock($1)").WithArgs(1).WillReturnResult(sqlmock.NewResult(0, 0))
			accepts(m, "UPDATE t SET n = 1")
			m.ExpectCommit()
		}},
		{name: "across a transaction", dialect: pg, program: func(ctx context.Context, db *sql.DB) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			var v any
			err = tx.QueryRowContext(ctx, "SELECT pg_advisory_lock(1)").Scan(&v)
			err2 := tx.QueryRowContext(ctx, "SELECT pg_advisory_unlock(1)").Scan(&v)
			return errors.Join(err, err2, tx.Rollback())
		}, script: func(m sqlmock.Sqlmock) {
			m.ExpectBegin()
			answers(m, "SELECT pg_advisory_lock(1)", "")
			answers(m, "SELECT pg_advisory_unlock(1)", true)
			m.ExpectRollback()
		}},
		{name: "prepared", dialect: pg, program: func(ctx context.Context, db *sql.DB) error {
			conn, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			var all error
			for _, text := range []string{"SELECT pg_advisory_lock($1)", "SELECT pg_advisory_unlock($1)"} {
				st, err := conn.PrepareContext(ctx, text)
				if err != nil {
					return err
				}
				var v any
				all = errors.Join(all, st.QueryRowContext(ctx, 1).Scan(&v), st.Close())
			}
			return errors.Join(all, conn.Close())
		}, script: func(m sqlmock.Sqlmock) {
			row := func() *sqlmock.Rows { return sqlmock.NewRows([]string{"v"}).AddRow(true) }
			m.ExpectPrepare("SELECT pg_advisory_lock($1)").WillBeClosed().ExpectQuery().WithArgs(1).WillReturnRows(row()).RowsWillBeClosed()
			m.ExpectPrepare("SELECT pg_advisory_unlock($1)").WillBeClosed().ExpectQuery().WithArgs(1).WillReturnRows(row()).RowsWillBeClosed()
		}},
		{name: "unlock fails, nothing held", dialect: pg, program: fails("SELECT pg_advisory_unlock(1)"), script: func(m sqlmock.Sqlmock) {
			m.ExpectQuery("SELECT pg_advisory_unlock(1)").WillReturnError(errScripted)
		}},
		{name: "manual transaction", dialect: pg, program: does("BEGIN", "UPDATE t SET n = 1", "COMMIT"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "BEGIN", "UPDATE t SET n = 1", "COMMIT")
		}},
		{name: "discarded by text", dialect: pg, program: does("SELECT pg_advisory_lock(1)", "DISCARD ALL"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "SELECT pg_advisory_lock(1)", "DISCARD ALL")
		}},
		{name: "misplaced unlock", dialect: pg, program: says("SELECT pg_advisory_unlock(1)"), reports: "MisplacedUnlock kept []", script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT pg_advisory_unlock(1)", false)
		}},

		{name: "MySQL, granted", dialect: my, program: says("SELECT GET_LOCK('jobs', 10)", "SELECT RELEASE_LOCK('jobs')"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT GET_LOCK('jobs', 10)", int64(1))
			answers(m, "SELECT RELEASE_LOCK('jobs')", []byte("1"))
		}},
		{name: "MySQL, timed out", dialect: my, program: says("SELECT GET_LOCK('jobs', 10)"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT GET_LOCK('jobs', 10)", int64(0))
		}},
		{name: "MySQL, interrupted", dialect: my, program: says("SELECT GET_LOCK('jobs', 10)"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT GET_LOCK('jobs', 10)", nil)
		}},
		{name: "MySQL, released by DO", dialect: my, program: func(ctx context.Context, db *sql.DB) error {
			conn, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			var ok int
			err = conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", "jobs", 10).Scan(&ok)
			_, err2 := conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", "jobs")
			return errors.Join(err, err2, conn.Close())
		}, script: func(m sqlmock.Sqlmock) {
			m.ExpectQuery("SELECT GET_LOCK(?, ?)").WithArgs("jobs", 10).WillReturnRows(sqlmock.NewRows([]string{"v"}).AddRow(1))
			m.ExpectExec("DO RELEASE_LOCK(?)").WithArgs("jobs").WillReturnResult(sqlmock.NewResult(0, 0))
		}},
		{name: "MySQL, all released", dialect: my, program: says("SELECT GET_LOCK('a', 0)", "SELECT GET_LOCK('b', 0)", "SELECT RELEASE_ALL_LOCKS()"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT GET_LOCK('a', 0)", 1)
			answers(m, "SELECT GET_LOCK('b', 0)", 1)
			answers(m, "SELECT RELEASE_ALL_LOCKS()", 2)
		}},
		{name: "MySQL, tables", dialect: my, program: does("LOCK TABLES t WRITE", "UPDATE t SET n = 1", "UNLOCK TABLES"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "LOCK TABLES t WRITE", "UPDATE t SET n = 1", "UNLOCK TABLES")
		}},
		{name: "MySQL, tables, freed by a transaction", dialect: my, program: func(ctx context.Context, db *sql.DB) error {
			conn, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			_, err = conn.ExecContext(ctx, "LOCK TABLES t WRITE")
			tx, err2 := conn.BeginTx(ctx, nil)
			if err2 != nil {
				return err2
			}
			return errors.Join(err, tx.Commit(), conn.Close())
		}, script: func(m sqlmock.Sqlmock) {
			accepts(m, "LOCK TABLES t WRITE")
			m.ExpectBegin()
			m.ExpectCommit()
		}},
		{name: "MySQL, backup", dialect: my, program: does("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES", "LOCK INSTANCE FOR BACKUP", "UNLOCK INSTANCE"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES", "LOCK INSTANCE FOR BACKUP", "UNLOCK INSTANCE")
		}},
		{name: "MariaDB, backup", dialect: my, program: does("BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT", "BACKUP STAGE END"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT", "BACKUP STAGE END")
		}},
		{name: "MySQL, handler", dialect: my, program: does("HANDLER t OPEN AS h", "HANDLER h CLOSE"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "HANDLER t OPEN AS h", "HANDLER h CLOSE")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Run("plain", func(t *testing.T) { c.hold(t, false) })
			t.Run("guarded", func(t *testing.T) { c.hold(t, true) })
		})
	}
}

// Leaks and doubts: what the guard sends, and that it then ends the session.
func TestLeakConversations(t *testing.T) {
	reset := []sqllock.Option{sqllock.WithPolicy(sqllock.Reset)}
	for _, c := range []conversation{
		{name: "leak", dialect: pg, program: says("SELECT pg_advisory_lock(1)"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT pg_advisory_lock(1)", "")
		}, guards: pgEnd, closed: true, reports: "Leak discarded [advisory lock 1 (exclusive)]"},
		{name: "leak, reset", dialect: pg, opts: reset, program: says("SELECT pg_advisory_lock(1)"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT pg_advisory_lock(1)", "")
		}, guards: func(m sqlmock.Sqlmock) { accepts(m, "SELECT pg_catalog.pg_advisory_unlock_all()") }, reports: "Leak reset [advisory lock 1 (exclusive)]"},
		{name: "leak, reset fails", dialect: pg, opts: reset, program: says("SELECT pg_advisory_lock(1)"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT pg_advisory_lock(1)", "")
		}, guards: func(m sqlmock.Sqlmock) {
			m.ExpectExec("SELECT pg_catalog.pg_advisory_unlock_all()").WillReturnError(errScripted)
			pgEnd(m)
		}, closed: true, reports: "Leak discarded [advisory lock 1 (exclusive)]"},
		{name: "leak, nothing of it is answered", dialect: pg, program: says("SELECT pg_advisory_lock(1)"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT pg_advisory_lock(1)", "")
		}, guards: func(m sqlmock.Sqlmock) {
			m.ExpectExec("ROLLBACK").WillReturnError(errScripted)
			m.ExpectExec("SELECT pg_catalog.pg_advisory_unlock_all()").WillReturnError(errScripted)
			m.ExpectClose()
		}, closed: true, reports: "Leak discarded [advisory lock 1 (exclusive)]"},
		{name: "manual transaction left open", dialect: pg, program: does("BEGIN"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "BEGIN")
		}, guards: pgEnd, closed: true, reports: "Unverified discarded []"},

		{name: "acquire fails", dialect: pg, program: fails("SELECT pg_advisory_lock(1)"), script: func(m sqlmock.Sqlmock) {
			m.ExpectQuery("SELECT pg_advisory_lock(1)").WillReturnError(errScripted)
		}, guards: probe},
		{name: "unlock of what was taken unseen", dialect: pg, program: says("SELECT app_lock(1)", "SELECT pg_advisory_unlock(1)"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT app_lock(1)", "")
			answers(m, "SELECT pg_advisory_unlock(1)", true)
		}, guards: probe},
		{name: "MySQL, unlock in another case", dialect: my, program: says("SELECT GET_LOCK('Jobs', 0)", "SELECT RELEASE_LOCK('jobs')"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT GET_LOCK('Jobs', 0)", 1)
			answers(m, "SELECT RELEASE_LOCK('jobs')", 1)
		}, guards: func(m sqlmock.Sqlmock) { answers(m, "SELECT RELEASE_ALL_LOCKS()", 0) }},

		{name: "MySQL, leak", dialect: my, program: says("SELECT GET_LOCK('jobs', 10)"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT GET_LOCK('jobs', 10)", 1)
		}, guards: myEnd, closed: true, reports: "Leak discarded [named lock jobs (exclusive)]"},
		{name: "MySQL, leak, reset", dialect: my, opts: reset, program: says("SELECT GET_LOCK('jobs', 10)"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT GET_LOCK('jobs', 10)", 1)
		}, guards: func(m sqlmock.Sqlmock) {
			accepts(m, "UNLOCK TABLES")
			answers(m, "SELECT RELEASE_ALL_LOCKS()", 1)
		}, reports: "Leak reset [named lock jobs (exclusive)]"},
		{name: "MySQL, tables", dialect: my, program: does("LOCK TABLES t WRITE"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "LOCK TABLES t WRITE")
		}, guards: myEnd, closed: true, reports: "Leak discarded [table lock t (exclusive)]"},
		{name: "MySQL, all tables", dialect: my, program: does("FLUSH TABLES WITH READ LOCK"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "FLUSH TABLES WITH READ LOCK")
		}, guards: myEnd, closed: true, reports: "Leak discarded [global read lock (exclusive)]"},
		{name: "MySQL, handler, which no statement resets", dialect: my, opts: reset, program: does("HANDLER t OPEN"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "HANDLER t OPEN")
		}, guards: myEnd, closed: true, reports: "Leak discarded [handler t (exclusive)]"},
		{name: "MariaDB, backup stage", dialect: my, program: does("BACKUP STAGE START"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "BACKUP STAGE START")
		}, guards: myEnd, closed: true, reports: "Leak discarded [backup lock STAGE (exclusive)]"},
		{name: "MySQL, reset of tables fails", dialect: my, opts: reset, program: does("LOCK TABLES t WRITE"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "LOCK TABLES t WRITE")
		}, guards: func(m sqlmock.Sqlmock) {
			m.ExpectExec("UNLOCK TABLES").WillReturnError(errScripted)
			myEnd(m)
		}, closed: true, reports: "Leak discarded [table lock t (exclusive)]"},
		{name: "cursor, moved by the end of a transaction", dialect: pg, program: func(ctx context.Context, db *sql.DB) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "DECLARE c CURSOR WITH HOLD FOR SELECT pg_advisory_lock(1)")
			return errors.Join(err, tx.Commit())
		}, script: func(m sqlmock.Sqlmock) {
			m.ExpectBegin()
			accepts(m, "DECLARE c CURSOR WITH HOLD FOR SELECT pg_advisory_lock(1)")
			m.ExpectCommit()
		}, guards: probe},
		{name: "MySQL, instance, which no statement resets", dialect: my, opts: reset, program: does("LOCK INSTANCE FOR BACKUP"), script: func(m sqlmock.Sqlmock) {
			accepts(m, "LOCK INSTANCE FOR BACKUP")
		}, guards: myEnd, closed: true, reports: "Leak discarded [instance lock (exclusive)]"},
		{name: "MySQL, doubt, nothing held", dialect: my, program: says("SELECT GET_LOCK('jobs', 0), 7 FROM t"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT GET_LOCK('jobs', 0), 7 FROM t", 0)
		}, guards: func(m sqlmock.Sqlmock) { answers(m, "SELECT RELEASE_ALL_LOCKS()", "0") }},
		{name: "MySQL, doubt, held", dialect: my, program: says("SELECT GET_LOCK('jobs', 0), 7 FROM t"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT GET_LOCK('jobs', 0), 7 FROM t", 1)
		}, guards: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT RELEASE_ALL_LOCKS()", 1)
			myEnd(m)
		}, closed: true, reports: "Leak discarded [named lock (1 not seen by name) (exclusive)]"},
		{name: "the probe's answer has another shape", dialect: pg, program: fails("SELECT pg_advisory_lock(1)"), script: func(m sqlmock.Sqlmock) {
			m.ExpectQuery("SELECT pg_advisory_lock(1)").WillReturnError(errScripted)
		}, guards: func(m sqlmock.Sqlmock) {
			expectProbe(m).WillReturnRows(sqlmock.NewRows([]string{"QUERY PLAN"}))
			pgEnd(m)
		}, closed: true, reports: "Unverified discarded []"},
		{name: "MySQL, prepared in the session", dialect: my, program: func(ctx context.Context, db *sql.DB) error {
			return errors.Join(does("PREPARE p FROM 'SELECT GET_LOCK(1, 0)'")(ctx, db), does("EXECUTE p")(ctx, db))
		}, script: func(m sqlmock.Sqlmock) {
			accepts(m, "PREPARE p FROM 'SELECT GET_LOCK(1, 0)'", "EXECUTE p")
		}, guards: func(m sqlmock.Sqlmock) { answers(m, "SELECT RELEASE_ALL_LOCKS()", 0) }},
		{name: "prepared in the session", dialect: pg, program: func(ctx context.Context, db *sql.DB) error {
			return errors.Join(does("PREPARE p AS SELECT pg_advisory_lock(1)")(ctx, db), does("EXPLAIN ANALYZE EXECUTE p")(ctx, db), does("DEALLOCATE ALL")(ctx, db), does("EXPLAIN ANALYZE EXECUTE p")(ctx, db))
		}, script: func(m sqlmock.Sqlmock) {
			accepts(m, "PREPARE p AS SELECT pg_advisory_lock(1)", "EXPLAIN ANALYZE EXECUTE p")
			probe(m)
			accepts(m, "DEALLOCATE ALL", "EXPLAIN ANALYZE EXECUTE p")
		}},
		{name: "MySQL, doubt, no answer", dialect: my, program: says("SELECT GET_LOCK('jobs', 0), 7 FROM t"), script: func(m sqlmock.Sqlmock) {
			answers(m, "SELECT GET_LOCK('jobs', 0), 7 FROM t", 1)
		}, guards: func(m sqlmock.Sqlmock) {
			m.ExpectQuery("SELECT RELEASE_ALL_LOCKS()").WillReturnError(errScripted)
			myEnd(m)
		}, closed: true, reports: "Unverified discarded []"},
	} {
		t.Run(c.name, func(t *testing.T) { c.hold(t, true) })
	}
}
