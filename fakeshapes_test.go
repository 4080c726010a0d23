package sqllock

import (
	"database/sql/driver"
)

// Whole families, for the shapes below.
type (
	fakeFullStmt struct {
		*fakeStmt
		fakeStmtExecCtx
		fakeStmtQueryCtx
		fakeStmtChecker
		fakeConverter
	}
	fakeFullRows struct {
		*fakeRows
		fakeNextSet
		fakeTypeName
		fakeTypeLength
		fakeTypeNullable
		fakeTypeDecimal
		fakeTypeScan
	}
	fakeContextStmt struct {
		*fakeStmt
		fakeStmtExecCtx
		fakeStmtQueryCtx
	}
)

func contextStmt(s *fakeStmt) driver.Stmt {
	return fakeContextStmt{s, fakeStmtExecCtx{s}, fakeStmtQueryCtx{s}}
}

func fullStmt(s *fakeStmt) driver.Stmt {
	return fakeFullStmt{s, fakeStmtExecCtx{s}, fakeStmtQueryCtx{s}, fakeStmtChecker{s}, fakeConverter{s}}
}

func fullRows(r *fakeRows) driver.Rows {
	return fakeFullRows{r, fakeNextSet{r}, fakeTypeName{r}, fakeTypeLength{r}, fakeTypeNullable{r}, fakeTypeDecimal{r}, fakeTypeScan{r}}
}

// modern is the shape of the drivers of today, and what tests use that are not about shapes. Like pgx it has no
// driver.Validator.
var modern = fakeShape{name: "modern", ctx: true, stmt: contextStmt, rows: fullRows, conn: func(c *fakeConn) driver.Conn {
	return struct {
		*fakeConn
		fakeQueryerCtx
		fakeExecerCtx
		fakePreparer
		fakeBeginner
		fakePinger
		fakeResetter
	}{c, fakeQueryerCtx{c}, fakeExecerCtx{c}, fakePreparer{c}, fakeBeginner{c}, fakePinger{c}, fakeResetter{c}}
}}

// fakeShapes are the mandatory methods only, each optional interface alone, those whose presence matters
// together, and everything.
var fakeShapes = []fakeShape{
	{name: "mandatory methods only"},
	modern,
	{name: "Queryer", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeQueryer
		}{c, fakeQueryer{c}}
	}},
	{name: "QueryerContext", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeQueryerCtx
		}{c, fakeQueryerCtx{c}}
	}},
	{name: "Execer", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeExecer
		}{c, fakeExecer{c}}
	}},
	{name: "ExecerContext", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeExecerCtx
		}{c, fakeExecerCtx{c}}
	}},
	{name: "QueryerContext and ExecerContext", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeQueryerCtx
			fakeExecerCtx
		}{c, fakeQueryerCtx{c}, fakeExecerCtx{c}}
	}},
	{name: "QueryerContext and NamedValueChecker", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeQueryerCtx
			fakeConnChecker
		}{c, fakeQueryerCtx{c}, fakeConnChecker{c}}
	}},
	{name: "ExecerContext and NamedValueChecker", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeExecerCtx
			fakeConnChecker
		}{c, fakeExecerCtx{c}, fakeConnChecker{c}}
	}},
	{name: "ConnPrepareContext", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakePreparer
		}{c, fakePreparer{c}}
	}},
	{name: "ConnBeginTx", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeBeginner
		}{c, fakeBeginner{c}}
	}},
	{name: "Pinger", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakePinger
		}{c, fakePinger{c}}
	}},
	{name: "SessionResetter", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeResetter
		}{c, fakeResetter{c}}
	}},
	{name: "Validator", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeValidator
		}{c, fakeValidator{c}}
	}},
	{name: "SessionResetter and Validator", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeResetter
			fakeValidator
		}{c, fakeResetter{c}, fakeValidator{c}}
	}},
	{name: "NamedValueChecker", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeConnChecker
		}{c, fakeConnChecker{c}}
	}},
	{name: "Stmt NamedValueChecker", stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeStmtChecker
		}{s, fakeStmtChecker{s}}
	}},
	{name: "both NamedValueCheckers", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeConnChecker
		}{c, fakeConnChecker{c}}
	}, stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeStmtChecker
		}{s, fakeStmtChecker{s}}
	}},
	{name: "Stmt ColumnConverter", stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeConverter
		}{s, fakeConverter{s}}
	}},
	{name: "Stmt ColumnConverter and Conn NamedValueChecker", conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeConnChecker
		}{c, fakeConnChecker{c}}
	}, stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeConverter
		}{s, fakeConverter{s}}
	}},
	{name: "Stmt ColumnConverter and NamedValueChecker", stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeConverter
			fakeStmtChecker
		}{s, fakeConverter{s}, fakeStmtChecker{s}}
	}},
	{name: "StmtExecContext", stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeStmtExecCtx
		}{s, fakeStmtExecCtx{s}}
	}},
	{name: "StmtQueryContext", stmt: func(s *fakeStmt) driver.Stmt {
		return struct {
			*fakeStmt
			fakeStmtQueryCtx
		}{s, fakeStmtQueryCtx{s}}
	}},
	{name: "DriverContext", ctx: true},
	{name: "connector Close", ctx: true, closer: true},
	{name: "RowsNextResultSet", rows: func(r *fakeRows) driver.Rows {
		return struct {
			*fakeRows
			fakeNextSet
		}{r, fakeNextSet{r}}
	}},
	{name: "RowsColumnTypeDatabaseTypeName", rows: func(r *fakeRows) driver.Rows {
		return struct {
			*fakeRows
			fakeTypeName
		}{r, fakeTypeName{r}}
	}},
	{name: "RowsColumnTypeLength", rows: func(r *fakeRows) driver.Rows {
		return struct {
			*fakeRows
			fakeTypeLength
		}{r, fakeTypeLength{r}}
	}},
	{name: "RowsColumnTypeNullable", rows: func(r *fakeRows) driver.Rows {
		return struct {
			*fakeRows
			fakeTypeNullable
		}{r, fakeTypeNullable{r}}
	}},
	{name: "RowsColumnTypePrecisionScale", rows: func(r *fakeRows) driver.Rows {
		return struct {
			*fakeRows
			fakeTypeDecimal
		}{r, fakeTypeDecimal{r}}
	}},
	{name: "RowsColumnTypeScanType", rows: func(r *fakeRows) driver.Rows {
		return struct {
			*fakeRows
			fakeTypeScan
		}{r, fakeTypeScan{r}}
	}},
	{name: "everything", ctx: true, closer: true, stmt: fullStmt, rows: fullRows, conn: func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeQueryer
			fakeQueryerCtx
			fakeExecer
			fakeExecerCtx
			fakePreparer
			fakeBeginner
			fakePinger
			fakeResetter
			fakeValidator
			fakeConnChecker
		}{
			c, fakeQueryer{c}, fakeQueryerCtx{c}, fakeExecer{c}, fakeExecerCtx{c}, fakePreparer{c},
			fakeBeginner{c}, fakePinger{c}, fakeResetter{c}, fakeValidator{c}, fakeConnChecker{c},
		}
	}},
}

// everything is the shape that has it all.
var everything = fakeShapes[len(fakeShapes)-1]
