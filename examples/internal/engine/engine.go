// Package engine opens the examples' databases: one that already runs, or an engine inside this process.
package engine

import (
	"database/sql"
	"errors"
	"io"
	"log"
	"net"
	"strings"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	engsql "github.com/dolthub/go-mysql-server/sql"
	"github.com/sirupsen/logrus"

	"github.com/sqllock/sqllock"
	_ "github.com/sqllock/sqllock/mysqllock" // registers "mysql-sqllock"
	_ "github.com/sqllock/sqllock/pgxlock"   // registers "pgx-sqllock"
)

// IsPostgres says whether dsn is a URL, which MySQL's data source names are not.
func IsPostgres(dsn string) bool { return strings.Contains(dsn, "://") }

// Open opens a guarded pool and its locker.
func Open(dsn string) (*sql.DB, sqllock.Locker, error) {
	if IsPostgres(dsn) {
		db, err := sql.Open("pgx-sqllock", dsn)
		return db, sqllock.NewPostgres(db), err
	}
	db, err := sql.Open("mysql-sqllock", dsn)
	return db, sqllock.NewMySQL(db), err
}

// Start starts an engine that speaks MySQL's protocol on 127.0.0.1 and keeps its data in memory.
func Start() (dsn string, stop func() error, err error) {
	logrus.SetOutput(io.Discard) // the engine's own log
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	data := memory.NewDBProvider(memory.NewDatabase("app"))
	e := sqle.NewDefault(data)
	s, err := server.NewServer(server.Config{Listener: listener, Options: []server.Option{(&serial{}).option()}}, e, engsql.NewContext, memory.NewSessionBuilder(data), nil)
	if err != nil {
		return "", nil, errors.Join(err, listener.Close())
	}
	go func() {
		if err := s.Start(); err != nil {
			log.Print(err)
		}
	}()
	return "root@tcp(" + listener.Addr().String() + ")/app", func() error { return errors.Join(s.Close(), e.Close()) }, nil
}

// Or returns dsn, or that of a new engine if it is empty.
func Or(dsn string) (string, func(), error) {
	if dsn != "" {
		return dsn, func() {}, nil
	}
	dsn, stop, err := Start()
	return dsn, func() { _ = stop() }, err
}
