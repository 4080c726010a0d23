package main

import (
	"errors"
	"io"
	"log"
	"net"
	"strings"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/sirupsen/logrus"
)

// database is a database server: how to reach it, and how it spells a session lock.
type database struct {
	name, driver, dsn string
	key               any
	lock, unlock      string
	close             func() error
}

// open returns the database at dsn, or one inside this process if dsn is empty.
func open(dsn string) (*database, error) {
	nothing := func() error { return nil }
	switch {
	case dsn == "":
		return embedded()
	case strings.Contains(dsn, "://"): // a URL, which MySQL's data source names are not
		return &database{
			name: "PostgreSQL", driver: "pgx", dsn: dsn, close: nothing, key: 730154001,
			lock: "SELECT pg_try_advisory_lock($1)", unlock: "SELECT pg_advisory_unlock($1)",
		}, nil
	default:
		return &database{
			name: "MySQL or MariaDB", driver: "mysql", dsn: dsn, close: nothing, key: "nightly-report",
			lock: "SELECT GET_LOCK(?, 0)", unlock: "SELECT RELEASE_LOCK(?)",
		}, nil
	}
}

// embedded starts an engine that speaks MySQL's protocol and keeps its data in memory.
func embedded() (*database, error) {
	logrus.SetOutput(io.Discard) // the engine's own log
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	data := memory.NewDBProvider(memory.NewDatabase("app"))
	engine := sqle.NewDefault(data)
	config := server.Config{Listener: listener}
	s, err := server.NewServer(config, engine, sql.NewContext, memory.NewSessionBuilder(data), nil)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	go func() {
		if err := s.Start(); err != nil {
			log.Print(err)
		}
	}()
	d, err := open("root@tcp(" + listener.Addr().String() + ")/app")
	d.name = "an engine inside this process"
	d.close = func() error { return errors.Join(s.Close(), engine.Close()) }
	return d, err
}
