// Package native is where the adapters (pgxlock, mysqllock) tell the library what their drivers can do
// beyond database/sql/driver. The root package imports no driver: it asks here, by the connection it has.
package native

import (
	"context"
	"database/sql/driver"
	"sync"
	"time"
)

// Abilities are what a driver's own connection can do. A nil field means that it cannot.
type Abilities struct {
	// InTransaction says, without I/O, whether the session is inside a transaction block.
	InTransaction func() bool
	// Dead says, without I/O, whether the driver itself has already closed the session.
	Dead func() bool
	// Terminate closes the innermost physical connection,
	// also where closing the driver.Conn would hand it to another pool.
	Terminate func(ctx context.Context) error
	// Await blocks until ctx ends and then returns nil, with the connection as good as before,
	// or until the session ends, and then returns an error.
	Await func(ctx context.Context) error
	// Peek looks, without a round trip, whether the session has ended.
	Peek func() error
	// Sibling opens more connections to the same server, as the same user.
	Sibling driver.Connector
	// ReadTimeout is how long the driver waits for an answer, if it is bounded.
	ReadTimeout time.Duration
	// PID is what the protocol called the session when it began: a pooler in between says a number of its own.
	PID func() uint32
	// Caches says by which setting, "name=value", the driver keeps prepared statements on the server under names; it
	// says nothing if it does not.
	Caches func() string
	// PlainArgs are arguments that make the driver send a statement as it is, preparing and caching nothing.
	PlainArgs []driver.NamedValue
}

// A Resolver returns the abilities of a connection of its driver, or false for any other driver's.
type Resolver func(driver.Conn) (Abilities, bool)

var (
	mu        sync.RWMutex
	resolvers []Resolver
	numbers   []func(error) (uint16, bool)
)

// Register adds a driver's resolver. Adapters call it when they are imported.
func Register(r Resolver) {
	mu.Lock()
	defer mu.Unlock()
	resolvers = append(resolvers, r)
}

// Of returns the abilities of c: the zero Abilities where no adapter knows it.
func Of(c driver.Conn) Abilities {
	mu.RLock()
	defer mu.RUnlock()
	return of(c)
}

func of(c driver.Conn) Abilities {
	for _, r := range resolvers {
		if a, ok := r(c); ok {
			return a
		}
	}
	if w, ok := c.(interface{ Raw() driver.Conn }); ok { // a wrapper below the guard, such as otelsql
		return of(w.Raw())
	}
	return Abilities{}
}

// RegisterErrors adds a driver's way to read the server's error number.
func RegisterErrors(number func(error) (uint16, bool)) {
	mu.Lock()
	defer mu.Unlock()
	numbers = append(numbers, number)
}

// ErrorNumber returns the MySQL error number in err, or 0.
func ErrorNumber(err error) uint16 {
	if err == nil {
		return 0
	}
	mu.RLock()
	defer mu.RUnlock()
	for _, number := range numbers {
		if n, ok := number(err); ok {
			return n
		}
	}
	return 0
}
