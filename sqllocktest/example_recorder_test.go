package sqllocktest_test

import (
	"fmt"
	"testing"

	"github.com/DATA-DOG/go-sqlmock"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/sqllocktest"
)

// A test that expects a leak looks at the report.
func ExampleRecorder() {
	var t testing.T // in a test: its *testing.T

	server, mock, _ := sqlmock.NewWithDSN("invoices") // stands for a server
	defer server.Close()
	mock.ExpectQuery("GET_LOCK").WithArgs("nightly-report").WillReturnRows(mock.NewRows([]string{"locked"}).AddRow(1))

	rec := sqllocktest.NewRecorder()
	db := sqllocktest.Open(&t, "sqlmock", "invoices",
		sqllock.WithDialect(sqllock.DialectMySQL), sqllock.WithReport(rec.Record))

	var locked bool
	_ = db.QueryRow("SELECT GET_LOCK(?, 0)", "nightly-report").Scan(&locked) // and forgets it

	leak := rec.Await(&t, sqllock.Leak)
	fmt.Println(leak.Holds[0], leak.Action)
	// Output: named lock nightly-report (exclusive) discarded
}
