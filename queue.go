package sqllock

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

// A queue lets one goroutine of the process at a time do something for a key.
type queue struct {
	turn chan struct{} // has room for one
	n    int           // guarded by locker.mu: who is in it or waits to be
}

type queueKey struct {
	key    serverKey
	shared bool
	making bool // not a key: the making of the shared pin
}

// queue waits for its turn.
func (l *locker) queue(ctx context.Context, k queueKey) (leave func(), err error) {
	l.mu.Lock()
	q := l.queues[k]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		l.queues[k] = q
	}
	q.n++
	l.mu.Unlock()
	select {
	case q.turn <- struct{}{}:
		return func() { <-q.turn; l.leave(k, q) }, nil
	case <-ctx.Done():
		l.leave(k, q)
		return nil, ctx.Err()
	}
}

func (l *locker) leave(k queueKey, q *queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.n--; q.n == 0 {
		delete(l.queues, k)
	}
}

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
