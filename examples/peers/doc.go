// Package peers shows that other libraries do not notice the guard: it holds tests and nothing else. Each test is a
// small program in the manner of a library's own documentation. It runs twice on a real server, with the driver as it
// is and with the guarded one, and what it saw has to be the same, line by line.
//
//	compare_test.go     how two runs are compared
//	pgx_test.go         pgx's stdlib: values, prepared statements, transactions, its special arguments, errors
//	pgx_unwrap_test.go  what needs pgx's own connection: CopyFrom, batches, LISTEN; and connectors
//	mysql_test.go       go-sql-driver/mysql's documented options, on MySQL and MariaDB
//	gorm_test.go        GORM on all three servers
//	sqlx_test.go        sqlx on all three servers
//
// What a program has to know is little:
//   - sqlx learns the guarded name with sqlx.BindDriver("pgx-sqllock", sqlx.DOLLAR);
//   - GORM takes the pool: postgres.New(postgres.Config{Conn: db}). By a name that it does not know, its migrator fails on PostgreSQL
//     after a change of a table: see docs/compatibility-orms.md;
//   - inside sql.Conn.Raw, sqllock.Unwrap gives the driver's own connection.
package peers
