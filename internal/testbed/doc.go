// Package testbed gives tests real, private database servers.
//
// The first test that asks for a server starts it; every later test of the same process shares it. Servers
// listen on 127.0.0.1 only, on a port and in a folder of their own, and a watchdog stops them and removes the
// folder however the test process ends (see watchdog.go).
//
// Where a server comes from, in this order:
//   - SQLLOCK_POSTGRES_DSN, SQLLOCK_MARIADB_DSN or SQLLOCK_MYSQL_DSN: a server that already runs;
//   - SQLLOCK_POSTGRES_BIN, SQLLOCK_MARIADB_BIN or SQLLOCK_MYSQL_BIN: the folder of a server program;
//   - a server program in PATH or in its usual folder, or the MySQL that `make servers` unpacked;
//   - none: the test is skipped and says what is missing. With SQLLOCK_REQUIRE_SERVERS=1 it fails instead.
//
// With SQLLOCK_ONLY=PostgreSQL, MariaDB or MySQL the tests of the two others are skipped, whatever is required.
//
// Reading order: server.go (what a test holds), start.go (how one comes to be), postgres.go, mysql.go and
// pgbouncer.go (what differs), standby.go (a second PostgreSQL that follows the first), held.go (looking from outside), proxy.go (a network that fails on demand).
package testbed
