// Package mysqllock registers the guarded driver "mysql-sqllock", which is go-sql-driver's "mysql" with sqllock
// around it, for MySQL and MariaDB:
//
//	import _ "github.com/sqllock/sqllock/mysqllock"
//
//	db, err := sql.Open("mysql-sqllock", dsn) // was: sql.Open("mysql", dsn)
package mysqllock

import (
	"database/sql"

	"github.com/go-sql-driver/mysql"

	"github.com/sqllock/sqllock"
)

// DriverName is the name under which the guarded driver is registered.
const DriverName = "mysql-sqllock"

func init() {
	sql.Register(DriverName, sqllock.Wrap(&mysql.MySQLDriver{}))
}
