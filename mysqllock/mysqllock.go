// Package mysqllock registers the guarded driver "mysql-sqllock", which is go-sql-driver's "mysql" with sqllock
// around it, for MySQL and MariaDB:
//
//	import _ "github.com/sqllock/sqllock/mysqllock"
//
//	db, err := sql.Open("mysql-sqllock", dsn) // was: sql.Open("mysql", dsn)
//
// Importing it also tells sqllock what go-sql-driver can do beyond database/sql/driver, for every pool of its
// connections, whatever name it was opened under: notice within milliseconds that the session has ended, read the
// server's error numbers, wait for locks no longer at a time than the DSN's readTimeout allows, and end a session
// whose cancelled statement still runs (by a KILL over one more connection).
package mysqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"

	"github.com/go-sql-driver/mysql"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/native"
)

// DriverName is the name under which the guarded driver is registered.
const DriverName = "mysql-sqllock"

func init() {
	native.Register(resolve)
	native.RegisterErrors(number)
	sql.Register(DriverName, sqllock.Wrap(&mysql.MySQLDriver{}))
}

// connPath is where go-sql-driver's connections are defined; their type is not exported.
var connPath = reflect.TypeFor[mysql.MySQLDriver]().PkgPath()

func resolve(c driver.Conn) (native.Abilities, bool) {
	v := reflect.ValueOf(c)
	r, ok := c.(interface {
		driver.SessionResetter
		driver.Validator
	})
	if !ok || v.Kind() != reflect.Pointer || v.Type().Elem().PkgPath() != connPath {
		return native.Abilities{}, false
	}
	a := native.Abilities{
		Peek: func() error { return peek(r) },
		Dead: func() bool { return !r.IsValid() },
	}
	if cfg := config(v.Elem()); cfg != nil {
		a.ReadTimeout = cfg.ReadTimeout
		a.Sibling = sibling{cfg}
	}
	return a, true
}

// peek: the driver's ResetSession looks at its socket, which costs about a microsecond and sends nothing.
func peek(c driver.SessionResetter) error { return c.ResetSession(context.Background()) }

// config reads the configuration of a connection, for which the driver has no method. It returns nil if the driver
// keeps it elsewhere than it did when this was written: then, nothing is known of it.
func config(conn reflect.Value) *mysql.Config {
	f := conn.FieldByName("cfg")
	if !f.IsValid() || f.Type() != reflect.TypeFor[*mysql.Config]() || f.IsNil() {
		return nil
	}
	return (*mysql.Config)(f.UnsafePointer())
}

// sibling is a connector that is made when it is needed.
type sibling struct{ cfg *mysql.Config }

func (s sibling) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := mysql.NewConnector(s.cfg)
	if err != nil {
		return nil, err
	}
	return c.Connect(ctx)
}

func (s sibling) Driver() driver.Driver { return &mysql.MySQLDriver{} }

func number(err error) (uint16, bool) {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number, true
	}
	return 0, false
}
