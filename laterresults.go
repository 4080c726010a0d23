package sqllock

import (
	"database/sql/driver"
	"io"
	"reflect"
)

// laterResults are the rows of several statements that end a transaction: an error of a later statement is told
// to NextResultSet alone, and then the transaction is still open. sqlmw has no eye for that.
type laterResults struct {
	driver.RowsNextResultSet
	o *observation
}

// seeLater returns rows that tell the observation of later errors, where those matter.
func (o *observation) seeLater(rows driver.Rows) driver.Rows {
	if more, ok := rows.(driver.RowsNextResultSet); ok && o != nil && o.s.ends {
		return laterResults{more, o}
	}
	return rows
}

func (r laterResults) NextResultSet() error {
	err := r.RowsNextResultSet.NextResultSet()
	if err != nil && err != io.EOF { //nolint:errorlint // as database/sql compares
		r.o.err = err
	}
	return err
}

// What a column is: the driver's answer, or database/sql's own if it has none.

func (r laterResults) ColumnTypeScanType(i int) reflect.Type {
	if c, ok := r.RowsNextResultSet.(driver.RowsColumnTypeScanType); ok {
		return c.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

func (r laterResults) ColumnTypeDatabaseTypeName(i int) string {
	if c, ok := r.RowsNextResultSet.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return c.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

func (r laterResults) ColumnTypeLength(i int) (int64, bool) {
	if c, ok := r.RowsNextResultSet.(driver.RowsColumnTypeLength); ok {
		return c.ColumnTypeLength(i)
	}
	return 0, false
}

func (r laterResults) ColumnTypeNullable(i int) (nullable, ok bool) {
	if c, ok := r.RowsNextResultSet.(driver.RowsColumnTypeNullable); ok {
		return c.ColumnTypeNullable(i)
	}
	return false, false
}

func (r laterResults) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if c, ok := r.RowsNextResultSet.(driver.RowsColumnTypePrecisionScale); ok {
		return c.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}
