package sqllock_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/DATA-DOG/go-sqlmock"
	"github.com/go-sql-driver/mysql"

	"github.com/sqllock/sqllock"
)

// script is a server that answers as it is told: for what a real one rarely does.
func script(t testing.TB) (*sql.DB, sqlmock.Sqlmock) {
	t.Helper()
	db, mock, err := sqlmock.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mock.ExpectationsWereMet(); err != nil {
			t.Error(err)
		}
		db.Close()
	})
	return db, mock
}

func row(values ...driver.Value) *sqlmock.Rows {
	names := make([]string, len(values))
	return sqlmock.NewRows(names).AddRow(values...)
}

const (
	pgOpen     = `SELECT l.ok.*idle_session_timeout.*pg_try_advisory_lock`
	pgUnlock   = `^SELECT pg_catalog.pg_advisory_unlock\(`
	pgHolds    = `^SELECT EXISTS .*pg_locks`
	pgRestore  = `^SELECT pg_catalog.set_config\('idle_session_timeout'`
	myVars     = `^SHOW SESSION VARIABLES`
	mySet      = `^SET SESSION wait_timeout = `
	myGetLock  = `^SELECT GET_LOCK\('x', 0\)$`
	myIsMine   = `^SELECT IS_USED_LOCK\('x'\) = CONNECTION_ID\(\)$`
	myUnlock   = `^SELECT RELEASE_LOCK\('x'\)$`
	postgres15 = "PostgreSQL 15.18"
)

func expectOpen(m sqlmock.Sqlmock, ok driver.Value) *sqlmock.ExpectedQuery {
	return m.ExpectQuery(pgOpen).WillReturnRows(row(ok, int64(0), postgres15, "0", "60000"))
}

// scripted acquires x as the script says.
func scripted(t testing.TB, l wholeLocker) (*sqllock.Lock, error) {
	t.Helper()
	lock, err := l.TryAcquire(t.Context(), sqllock.Name("x"))
	t.Cleanup(func() { l.Close() })
	return lock, err
}

// Whatever an unlock answers, the key is not held after Release, and Release says what it knows.
func TestScriptedRelease(t *testing.T) {
	broken := errors.New("canceling statement")
	for name, c := range map[string]struct {
		expect func(sqlmock.Sqlmock)
		want   func(error) bool
	}{
		"true": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgUnlock).WillReturnRows(row(true))
			m.ExpectExec(pgRestore).WillReturnResult(driver.ResultNoRows)
		}, func(err error) bool { return err == nil }},
		"false, and it does not hold it": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgUnlock).WillReturnRows(row(false))
			m.ExpectQuery(pgHolds).WillReturnRows(row(false))
			m.ExpectExec(pgRestore).WillReturnResult(driver.ResultNoRows)
		}, func(err error) bool { return errors.Is(err, sqllock.ErrLost) }},
		"an error after the work was done": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgUnlock).WillReturnError(broken)
			m.ExpectQuery(pgHolds).WillReturnRows(row(false))
			m.ExpectExec(pgRestore).WillReturnResult(driver.ResultNoRows)
		}, func(err error) bool { return err == nil }},
		"an error before": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgUnlock).WillReturnError(broken)
			m.ExpectQuery(pgHolds).WillReturnRows(row(true))
			m.ExpectQuery(pgUnlock).WillReturnRows(row(true))
			m.ExpectExec(pgRestore).WillReturnResult(driver.ResultNoRows)
		}, func(err error) bool { return err == nil }},
		"errors only": {func(m sqlmock.Sqlmock) {
			for range 2 {
				m.ExpectQuery(pgUnlock).WillReturnError(broken)
				m.ExpectQuery(pgHolds).WillReturnRows(row(true))
			}
			m.ExpectClose()
		}, func(err error) bool { return errors.Is(err, sqllock.ErrLost) }},
		"no answer to any question": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgUnlock).WillReturnError(broken)
			m.ExpectQuery(pgHolds).WillReturnError(broken)
			m.ExpectClose()
		}, func(err error) bool { return errors.Is(err, sqllock.ErrLost) && errors.Is(err, broken) }},
		"a dead session": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgUnlock).WillReturnError(driver.ErrBadConn)
			m.ExpectClose()
		}, func(err error) bool { return errors.Is(err, sqllock.ErrLost) }},
		"true, and the settings stay": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgUnlock).WillReturnRows(row(true))
			m.ExpectExec(pgRestore).WillReturnError(broken)
			m.ExpectClose()
		}, func(err error) bool { return err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			db, m := script(t)
			expectOpen(m, true)
			c.expect(m)
			l := sqllock.NewPostgres(db)
			lock, err := scripted(t, l)
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Release(); !c.want(err) {
				t.Errorf("Release: %v", err)
			}
			l.Close()
		})
	}
}

// Whatever an acquire answers, nothing that nobody was told about stays held.
func TestScriptedAcquire(t *testing.T) {
	broken := errors.New("canceling statement")
	for name, c := range map[string]struct {
		expect func(sqlmock.Sqlmock)
		want   error
	}{
		"an error, and it is not held": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgOpen).WillReturnError(broken)
			m.ExpectQuery(pgHolds).WillReturnRows(row(false))
		}, broken},
		"an error, and it is held": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgOpen).WillReturnError(broken)
			m.ExpectQuery(pgHolds).WillReturnRows(row(true))
			m.ExpectQuery(pgUnlock).WillReturnRows(row(true))
		}, broken},
		"an error, it is held, and stays so": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgOpen).WillReturnError(broken)
			m.ExpectQuery(pgHolds).WillReturnRows(row(true))
			m.ExpectQuery(pgUnlock).WillReturnRows(row(false))
			m.ExpectClose()
		}, broken},
		"CockroachDB": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgOpen).WillReturnRows(row(true, int64(0), "CockroachDB CCL v24.1", "0", "60000"))
			m.ExpectQuery(pgHolds).WillReturnRows(row(false))
			m.ExpectExec(pgRestore).WillReturnResult(driver.ResultNoRows)
		}, sqllock.ErrUnsupported},
		"a standby": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgOpen).WillReturnRows(row(nil, int64(0), postgres15, "0", "60000"))
			m.ExpectQuery(pgHolds).WillReturnRows(row(false))
		}, sqllock.ErrUnsupported},
		"before PostgreSQL 14": {func(m sqlmock.Sqlmock) {
			m.ExpectQuery(pgOpen).WillReturnRows(row(false, int64(0), "PostgreSQL 13", nil, nil))
			m.ExpectExec("tcp_keepalives_idle', '15'.*tcp_keepalives_interval', '15'.*tcp_keepalives_count', '2'").WillReturnResult(driver.ResultNoRows)
			m.ExpectExec("reset_val.*tcp_keepalives_count").WillReturnResult(driver.ResultNoRows)
		}, sqllock.ErrHeld},
	} {
		t.Run(name, func(t *testing.T) {
			db, m := script(t)
			c.expect(m)
			if _, err := scripted(t, sqllock.NewPostgres(db)); !errors.Is(err, c.want) {
				t.Errorf("TryAcquire: %v", err)
			}
		})
	}
}

// To the server, the shared locks of a process on one key are one: it shows one, however often a session holds it.
func TestScriptedSharedIsOne(t *testing.T) {
	db, m := script(t)
	expectOpen(m, true)
	m.ExpectQuery("^SELECT pg_catalog.pg_advisory_unlock_shared").WillReturnRows(row(true))
	m.ExpectExec("set_config").WillReturnResult(driver.ResultNoRows)
	p := sqllock.NewPostgres(db)
	a, b := mustTry(t, p.Shared(), sqllock.Name("x")), mustTry(t, p.Shared(), sqllock.Name("x"))
	if _, err := p.TryAcquire(t.Context(), sqllock.Name("x")); !errors.Is(err, sqllock.ErrHeld) {
		t.Errorf("exclusive beside shared: %v", err)
	}
	mustRelease(t, a, b)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func vars(pairs ...string) *sqlmock.Rows {
	rows := sqlmock.NewRows([]string{"Variable_name", "Value"}).AddRow("wait_timeout", "28800").AddRow("pseudo_thread_id", "7")
	for i := 0; i < len(pairs); i += 2 {
		rows.AddRow(pairs[i], pairs[i+1])
	}
	return rows
}

// One set of rules for MySQL and MariaDB: NULL is an error of its own, an error's number says what it means, and
// servers whose locks do not count are refused.
func TestScriptedMySQL(t *testing.T) {
	for name, c := range map[string]struct {
		vars   []string
		answer func(*sqlmock.ExpectedQuery) // of GET_LOCK; nil: it is not asked
		want   func(error) bool
	}{
		"NULL": {nil, func(q *sqlmock.ExpectedQuery) { q.WillReturnRows(row(nil)) }, func(err error) bool {
			return err != nil && !errors.Is(err, sqllock.ErrHeld) && strings.Contains(err.Error(), "NULL")
		}},
		"0":    {nil, func(q *sqlmock.ExpectedQuery) { q.WillReturnRows(row(0)) }, is(sqllock.ErrHeld)},
		"3058": {nil, func(q *sqlmock.ExpectedQuery) { q.WillReturnError(&mysql.MySQLError{Number: 3058}) }, is(sqllock.ErrDeadlock)},
		"1213": {nil, func(q *sqlmock.ExpectedQuery) { q.WillReturnError(&mysql.MySQLError{Number: 1213}) }, is(sqllock.ErrDeadlock)},
		"1235": {nil, func(q *sqlmock.ExpectedQuery) { q.WillReturnError(&mysql.MySQLError{Number: 1235}) }, func(err error) bool {
			var e *mysql.MySQLError
			return errors.As(err, &e) && e.Number == 1235
		}},
		"Galera":                {[]string{"wsrep_on", "ON"}, nil, is(sqllock.ErrUnsupported)},
		"replica":               {[]string{"read_only", "ON"}, nil, is(sqllock.ErrUnsupported)},
		"replica of MariaDB 12": {[]string{"read_only", "NO_LOCK_NO_ADMIN"}, nil, is(sqllock.ErrUnsupported)},
		"Aurora's reader":       {[]string{"innodb_read_only", "1"}, nil, is(sqllock.ErrUnsupported)},
		"TiDB 5":                {[]string{"version", "5.7.25-TiDB-v5.4.0"}, nil, is(sqllock.ErrUnsupported)},
	} {
		t.Run(name, func(t *testing.T) {
			db, m := script(t)
			m.MatchExpectationsInOrder(true)
			m.ExpectQuery(myVars).WillReturnRows(vars(c.vars...))
			if c.answer != nil {
				m.ExpectExec(mySet + "60$").WillReturnResult(driver.ResultNoRows)
				c.answer(m.ExpectQuery(myGetLock))
			}
			if name != "0" {
				m.ExpectQuery(myIsMine).WillReturnRows(row(false))
			}
			if c.answer != nil {
				m.ExpectExec(mySet + "28800$").WillReturnResult(driver.ResultNoRows)
			}
			if _, err := scripted(t, sqllock.NewMySQL(db)); !c.want(err) {
				t.Errorf("TryAcquire: %v", err)
			}
		})
	}
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

// RELEASE_LOCK answers NULL where nobody has the lock, and 0 where somebody else does: both mean that it was lost.
func TestScriptedMySQLRelease(t *testing.T) {
	for _, answer := range []driver.Value{nil, 0} {
		db, m := script(t)
		m.ExpectQuery(myVars).WillReturnRows(vars())
		m.ExpectExec(mySet).WillReturnResult(driver.ResultNoRows)
		m.ExpectQuery(myGetLock).WillReturnRows(row(1))
		m.ExpectQuery(myUnlock).WillReturnRows(row(answer))
		m.ExpectQuery(myIsMine).WillReturnRows(row(nil))
		m.ExpectExec(mySet).WillReturnResult(driver.ResultNoRows)
		l := sqllock.NewMySQL(db)
		lock, err := scripted(t, l)
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Release(); !errors.Is(err, sqllock.ErrLost) {
			t.Errorf("RELEASE_LOCK answers %v: %v", answer, err)
		}
		l.Close()
	}
}

// A slice that timed out may have been granted the lock at the last moment. Whoever gives up then finds that out.
func TestScriptedLateGrant(t *testing.T) {
	db, m := script(t)
	expectOpen(m, false)
	m.ExpectExec(pgRestore).WillReturnResult(driver.ResultNoRows)
	expectOpen(m, false)
	m.ExpectQuery("CASE WHEN EXISTS .* THEN true WHEN .*set_config\\('lock_timeout', '250', true\\).*pg_advisory_lock").WillDelayFor(600 * time.Millisecond).WillReturnError(scriptedState("55P03"))
	m.ExpectQuery(pgHolds).WillReturnRows(row(true)) // granted all the same
	m.ExpectQuery(pgUnlock).WillReturnRows(row(true))
	m.ExpectExec(pgRestore).WillReturnResult(driver.ResultNoRows)
	l := sqllock.NewPostgres(db)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // ends while the server waits
	defer cancel()
	if _, err := l.Acquire(ctx, sqllock.Name("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

type scriptedState string

func (s scriptedState) Error() string    { return "SQLSTATE " + string(s) }
func (s scriptedState) SQLState() string { return string(s) }
