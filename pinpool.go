package sqllock

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

// pinCounts are the pins of each pool, of all its lockers.
var pinCounts = struct {
	sync.Mutex
	of map[*sql.DB]int
}{of: map[*sql.DB]int{}}

// reserve makes sure that lockers never take the last connection of a pool: whoever holds a lock usually needs
// another connection for the work, and would wait for it for ever.
func (l *locker) reserve() error {
	limit := l.db.Stats().MaxOpenConnections
	pinCounts.Lock()
	defer pinCounts.Unlock()
	n := pinCounts.of[l.db]
	if limit > 0 && n >= limit-1 {
		return fmt.Errorf("%w: it may open %d connections and locks pin %d: raise SetMaxOpenConns to at least %d, or give the locker a *sql.DB of its own",
			ErrPoolTooSmall, limit, n, n+2)
	}
	pinCounts.of[l.db] = n + 1
	return nil
}

func (l *locker) unreserve() {
	pinCounts.Lock()
	defer pinCounts.Unlock()
	if pinCounts.of[l.db]--; pinCounts.of[l.db] == 0 {
		delete(pinCounts.of, l.db)
	}
}

// poolPatience is how long a locker waits for a connection of a pool all of which are in use: perhaps by the very
// goroutine that waits.
const poolPatience = 5 * time.Second

// reserveSoon reserves; it waits for the places of pins that are just going.
func (l *locker) reserveSoon(ctx context.Context) error {
	for {
		err := l.reserve()
		if err == nil {
			return nil
		}
		if p := l.going(); p == nil || !p.awaitEnd(ctx.Done()) {
			return err
		}
	}
}

// going returns a pin that holds nothing and serves nobody else.
func (l *locker) going() *pin {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pins {
		select {
		case <-p.closing:
			if p.empty() {
				return p
			}
		default:
		}
	}
	return nil
}

// connect takes a connection of the pool.
func (l *locker) connect(ctx context.Context) (*sql.Conn, error) {
	if l.db.Stats().MaxOpenConnections == 0 {
		return l.db.Conn(ctx)
	}
	patience, cancel := context.WithTimeout(ctx, poolPatience)
	defer cancel()
	c, err := l.db.Conn(patience)
	if err == nil || ctx.Err() != nil || patience.Err() == nil {
		return c, err
	}
	if s := l.db.Stats(); s.InUse >= s.MaxOpenConnections {
		return nil, fmt.Errorf("%w: all its %d connections were in use for %v: raise SetMaxOpenConns, or give the locker a *sql.DB of its own",
			ErrPoolTooSmall, s.InUse, poolPatience)
	}
	return l.db.Conn(ctx) // connecting is what takes long
}
