package sqllock

// A Dialect is the family of SQL that a server speaks. The zero value is no dialect.
type Dialect uint8

const (
	// DialectPostgres is PostgreSQL.
	DialectPostgres Dialect = iota + 1
	// DialectMySQL is MySQL and MariaDB.
	DialectMySQL
)

// String returns the dialect's name.
func (d Dialect) String() string {
	switch d {
	case DialectPostgres:
		return "PostgreSQL"
	case DialectMySQL:
		return "MySQL"
	default:
		return "unknown"
	}
}
