package main

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/XSAM/otelsql"
	"github.com/ngrok/sqlmw"
	metric "go.opentelemetry.io/otel/metric/noop"
	trace "go.opentelemetry.io/otel/trace/noop"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/bench/contest"
)

// The rivals, in the order of the table's columns. The control is a second bare pool: what it differs from
// the first is the noise of the machine.
const (
	bare = iota
	control
	guarded
	sqlmwAlone
	otel
	rivals
)

var rivalNames = [rivals]string{"bare", "control", "guarded", "sqlmw", "otelsql"}

// A source is where a pool's connections come from.
type source struct {
	name    string
	driver  driver.Driver
	dsn     string
	dialect sqllock.Dialect
}

// connector returns the source as a rival presents it to database/sql.
func (s source) connector(rival int) (driver.Connector, error) {
	switch rival {
	case guarded:
		c, err := s.of(s.driver)
		quiet := sqllock.WithReport(func(sqllock.Report) {})
		return sqllock.WrapConnector(c, sqllock.WithDialect(s.dialect), quiet), err
	case sqlmwAlone:
		return s.of(sqlmw.Driver(s.driver, sqlmw.NullInterceptor{}))
	case otel:
		return s.of(otelsql.WrapDriver(s.driver,
			otelsql.WithTracerProvider(trace.NewTracerProvider()), otelsql.WithMeterProvider(metric.NewMeterProvider())))
	default:
		return s.of(s.driver)
	}
}

// of does what sql.Open does.
func (s source) of(d driver.Driver) (driver.Connector, error) {
	if dc, ok := d.(driver.DriverContext); ok {
		return dc.OpenConnector(s.dsn)
	}
	return dsnConnector{d, s.dsn}, nil
}

type dsnConnector struct {
	driver driver.Driver
	dsn    string
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.driver }

// pools are one pool of one connection per rival, all open at once: what the machine does to one it does to all.
type pools [rivals]*sql.DB

func open(s source) (p pools, err error) {
	for rival := range p {
		if p[rival], err = openOne(s, rival); err != nil {
			p.close()
			return p, err
		}
	}
	return p, nil
}

func openOne(s source, rival int) (*sql.DB, error) {
	c, err := s.connector(rival)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(1)
	return db, nil
}

// sides lets every rival prepare its side of a contest.
func (p pools) sides(prepare func(*sql.DB) (contest.Side, error)) ([]contest.Side, error) {
	var sides []contest.Side
	for _, db := range p {
		s, err := prepare(db)
		if err != nil {
			contest.Close(sides)
			return nil, err
		}
		sides = append(sides, s)
	}
	return sides, nil
}

func (p pools) close() {
	for _, db := range p {
		if db != nil {
			db.Close()
		}
	}
}
