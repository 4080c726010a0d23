package sqllocktest_test

import (
	"fmt"
	"strings"

	"github.com/DATA-DOG/go-sqlmock"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/sqllocktest"
)

// firstLines is what t is in this example. In a test, t is its *testing.T.
type firstLines struct{ cleanup func() }

func (*firstLines) Helper()            {}
func (t *firstLines) Cleanup(f func()) { t.cleanup = f }
func (*firstLines) Errorf(format string, args ...any) {
	line, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n")
	fmt.Println("FAIL:", line)
}

func Example() {
	t := &firstLines{}

	// sqlmock stands for a server here: with a real one, all of this is sqllocktest.Open(t, "pgx", dsn).
	server, mock, _ := sqlmock.NewWithDSN("orders")
	defer server.Close()
	mock.ExpectQuery("pg_try_advisory_lock").WillReturnRows(mock.NewRows([]string{"locked"}).AddRow(true))

	db := sqllocktest.Open(t, "sqlmock", "orders", sqllock.WithDialect(sqllock.DialectPostgres))

	var locked bool
	_ = db.QueryRow("SELECT pg_try_advisory_lock(42)").Scan(&locked) // and nobody releases it

	t.cleanup()
	// Output:
	// FAIL: sqllock: a connection came back to the pool still holding a session lock: discarded
}
