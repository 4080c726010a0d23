package sqllock

import (
	"database/sql"
	"sync"
	"sync/atomic"
	"time"
)

// pool is what the guard knows of one *sql.DB: its physical connections and its counters.
//
// Lock order: pool.mu is never held while a connection's table is locked, nor the other way round:
// whoever looks at other connections takes a copy of the list first.
type pool struct {
	cfg      *config
	report   func(Report)
	counters counters
	hidden   sync.Once // ValidatorHidden is reported once a pool

	mu    sync.Mutex
	conns map[*conn]struct{}
	next  uint64
}

type counters struct {
	acquired, released, leaked, lost, discarded, probes, reports atomic.Int64
}

// Stats are the counts of one pool since it was opened.
type Stats struct {
	LocksHeld      int64 // Session locks that the pool's connections are known to hold now, stacked holds counted once.
	LocksAcquired  int64 // The total number of acquires that were seen to succeed.
	LocksReleased  int64 // The total number of releases that were seen to succeed.
	LocksLeaked    int64 // The total number of locks still held when their connection was returned to the pool.
	LocksLost      int64 // The total number of locks whose session ended under the holder.
	ConnsDiscarded int64 // The total number of connections that the guard ended instead of letting them be reused.
	Probes         int64 // The total number of times that the guard asked the server what a session holds.
	Reports        int64 // The total number of reports.
}

// ReadStats returns the counts of db's guard, or [ErrNotGuarded].
func ReadStats(db *sql.DB) (Stats, error) {
	p, err := poolOf(db)
	if err != nil {
		return Stats{}, err
	}
	c := &p.counters
	return Stats{
		LocksHeld: int64(len(p.held())), LocksAcquired: c.acquired.Load(), LocksReleased: c.released.Load(),
		LocksLeaked: c.leaked.Load(), LocksLost: c.lost.Load(), ConnsDiscarded: c.discarded.Load(),
		Probes: c.probes.Load(), Reports: c.reports.Load(),
	}, nil
}

// Held returns what the sessions of db's pool are known to hold now, or [ErrNotGuarded].
// It asks no server.
func Held(db *sql.DB) ([]Hold, error) {
	p, err := poolOf(db)
	if err != nil {
		return nil, err
	}
	return p.held(), nil
}

func newPool(cfg *config) *pool {
	p := &pool{cfg: cfg, report: cfg.report, conns: map[*conn]struct{}{}}
	if p.report == nil { // a log for each pool: the mistakes of one hide no other's
		p.report = new(reportLogger).report
	}
	return p
}

func (p *pool) add(c *conn) (id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
	p.next++
	return p.next
}

func (p *pool) remove(c *conn) {
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

func (p *pool) list() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	return conns
}

func (p *pool) held() []Hold {
	var holds []Hold
	for _, c := range p.list() {
		holds = append(holds, c.table.list()...)
	}
	sortHolds(holds)
	return holds
}

// misplaced adds to a report of an unlock that released nothing the other connections of the pool that hold the key.
func (p *pool) misplaced(c *conn, key lockKey, r *Report) {
	if r.Kind != MisplacedUnlock {
		return
	}
	for _, other := range p.list() {
		if other != c {
			r.Holds = append(r.Holds, other.table.find(key.name)...)
		}
	}
	sortHolds(r.Holds)
}

// find returns the holds of a key by its name, in whatever mode.
func (t *holdTable) find(name string) []Hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	var holds []Hold
	for k, h := range t.holds {
		if k.name == name && k.kind.class() == classLocks {
			holds = append(holds, t.holdLocked(k, h))
		}
	}
	return holds
}

// deliver counts a report and hands it over. A panic in the receiver must not cost the pool a connection.
func (p *pool) deliver(r Report) {
	p.counters.reports.Add(1)
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	defer func() {
		if v := recover(); v != nil {
			logPanic(r, v)
		}
	}()
	p.report(r)
}
