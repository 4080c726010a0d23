package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
)

// What the guarded driver and connector promise. A guarded connection promises exactly the optional
// interfaces of the driver's own connection: see conn.go.
var (
	_ driver.Driver        = (*guardedDriver)(nil)
	_ driver.DriverContext = (*guardedDriver)(nil)
	_ driver.Connector     = (*guardedConnector)(nil)
	_ io.Closer            = (*guardedConnector)(nil)
)

// Wrap returns a driver whose connections never go back to a pool while their session holds a lock.
// Register it under a name of its own, then only the name in sql.Open changes:
//
//	sql.Register("pq-sqllock", sqllock.Wrap(&pq.Driver{}))
//
// A nil driver, an unknown driver without [WithDialect] and contradictory options are programming errors:
// Wrap panics with the remedy, as [sql.Register] does. Importing pgxlock or mysqllock registers
// "pgx-sqllock" or "mysql-sqllock" with the default options.
//
// What d returns in errors reaches the caller unchanged. Where a program asserts the type of the driver's own
// connection inside [sql.Conn.Raw], it has to ask [Unwrap] first.
func Wrap(d driver.Driver, opts ...Option) driver.Driver {
	cfg, err := newConfig(d, opts)
	if err != nil {
		panic(err.Error())
	}
	return &guardedDriver{base: d, cfg: cfg}
}

// WrapConnector is [Wrap] for a connector, such as stdlib.GetConnector(config).
// What makes Wrap panic is returned by Connect here, and so by the first use of the pool.
func WrapConnector(c driver.Connector, opts ...Option) driver.Connector {
	if isNil(c) {
		return &guardedConnector{err: errors.New("sqllock: the connector is nil")}
	}
	cfg, err := newConfig(c.Driver(), opts)
	if err != nil {
		return &guardedConnector{base: c, err: err}
	}
	return newConnector(c, cfg)
}

// OpenDB is [sql.OpenDB] with a guarded connector: see [WrapConnector].
func OpenDB(c driver.Connector, opts ...Option) *sql.DB {
	return sql.OpenDB(WrapConnector(c, opts...))
}

// guardedDriver is what sql.Open finds under a guarded name (pool is nil) and what
// a pool's connector answers to Driver: one value per pool, which is how ReadStats finds the pool.
type guardedDriver struct {
	base driver.Driver
	cfg  *config
	pool *pool
}

// Open opens one connection outside of any pool.
func (d *guardedDriver) Open(name string) (driver.Conn, error) {
	c, err := d.OpenConnector(name)
	if err != nil {
		return nil, err
	}
	return c.Connect(context.Background())
}

// OpenConnector is called by sql.Open, once per pool.
func (d *guardedDriver) OpenConnector(name string) (driver.Connector, error) {
	base := driver.Connector(dsnConnector{name: name, driver: d.base})
	if dc, ok := d.base.(driver.DriverContext); ok {
		var err error
		if base, err = dc.OpenConnector(name); err != nil {
			return nil, err
		}
	}
	return newConnector(base, d.cfg), nil
}

// dsnConnector is what sql.Open makes of a driver that has no connectors.
type dsnConnector struct {
	name   string
	driver driver.Driver
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.name) }
func (c dsnConnector) Driver() driver.Driver                        { return c.driver }

type guardedConnector struct {
	base   driver.Connector
	driver *guardedDriver
	err    error
}

func newConnector(base driver.Connector, cfg *config) *guardedConnector {
	d := &guardedDriver{base: base.Driver(), cfg: cfg, pool: newPool(cfg)}
	return &guardedConnector{base: base, driver: d}
}

// Connect opens a physical connection and puts the guard around it.
func (c *guardedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.err != nil {
		return nil, c.err
	}
	base, err := c.base.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return newConn(base, c.driver.pool).presented(), nil
}

// Driver returns this pool's guarded driver.
func (c *guardedConnector) Driver() driver.Driver {
	if c.driver == nil { // so that sql.DB.Driver works on a pool that can only answer err
		return &guardedDriver{}
	}
	return c.driver
}

// Close closes the driver's own connector where it can be closed.
func (c *guardedConnector) Close() error {
	if cl, ok := c.base.(io.Closer); ok {
		return cl.Close()
	}
	return nil
}

// poolOf finds a pool's guard through the per-pool driver value.
func poolOf(db *sql.DB) (*pool, error) {
	if d, ok := db.Driver().(*guardedDriver); ok && d.pool != nil {
		return d.pool, nil
	}
	return nil, ErrNotGuarded
}
