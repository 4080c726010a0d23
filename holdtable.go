package sqllock

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A holdKind is a kind of session lock.
type holdKind uint8

const (
	kindAdvisory holdKind = iota
	kindNamed
	kindTable
	kindGlobal
	kindInstance
	kindBackup
	kindHandler
)

var kindNames = [...]string{"advisory lock", "named lock", "table lock", "global read lock", "instance lock", "backup lock", "handler"}

func (k holdKind) String() string { return kindNames[k] }

func (k holdKind) class() class {
	switch k {
	case kindAdvisory, kindNamed:
		return classLocks
	case kindHandler:
		return classHandler
	default:
		return classTables
	}
}

// lockKey is what a session can hold once or several times: exclusive and shared are separate holds.
type lockKey struct {
	kind   holdKind
	shared bool
	name   string
}

type hold struct {
	count    int
	since    time.Time
	text     string
	stack    []uintptr
	reported bool        // by ReportOnly, which reports each hold once
	limit    *time.Timer // WithHoldLimit
}

// holdTable is what one physical connection's session holds, and what is in doubt about it.
// Its connection changes it; Held and MisplacedUnlock read it from other goroutines.
type holdTable struct {
	id   uint64 // of the connection, within its pool
	pool *pool

	// touched is false while nothing is held, in doubt or under way: an ordinary return of the connection, which is
	// nearly every one, then takes no lock. Only the connection's own calls set it.
	touched atomic.Bool

	mu       sync.Mutex
	holds    map[lockKey]*hold
	doubt    class  // unverified: neither text nor results prove what the session holds
	why      *doubt // the first statement that raised the doubt
	underway int    // observations that have not ended
	marks    class  // what SQL-level prepared statements and cursors may do when they are run
	cursor   bool   // a cursor is among them
	manualTx *doubt // the text that opened a transaction, while it is open
	inTx     bool   // BeginTx's transaction is open
	dead     bool   // the driver gave the session up

	holder func() []Hold // the pin that has the connection, if one has
}

// doubt is a statement to name in a report.
type doubt struct {
	text  string
	stack []uintptr
	since time.Time
}

func (o *observation) doubt() *doubt { return &doubt{text: o.text, stack: o.where(), since: o.since} }

// concerns says whether a statement has to be observed, as things stand.
func (t *holdTable) concerns(s statement) bool {
	if s.verb != verbNone || s.may|s.marks != 0 || s.txLock || s.opens || s.ends {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.runs && t.marks != 0 || t.holdsLocked(s.frees)
}

func (t *holdTable) begin() {
	t.touched.Store(true)
	t.mu.Lock()
	t.underway++
	t.mu.Unlock()
}

func (t *holdTable) cancel() {
	t.mu.Lock()
	t.underway--
	t.mu.Unlock()
}

func (t *holdTable) marked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.marks != 0
}

func (t *holdTable) setDead() {
	t.touched.Store(true)
	t.mu.Lock()
	t.dead = true
	t.mu.Unlock()
}

func (t *holdTable) holdsLocked(c class) bool {
	if c == 0 {
		return false
	}
	for k := range t.holds {
		if k.kind.class()&c != 0 {
			return true
		}
	}
	return false
}

func (t *holdTable) addLocked(k lockKey, o *observation) {
	t.pool.counters.acquired.Add(1)
	if h := t.holds[k]; h != nil {
		h.count++
		return
	}
	if t.holds == nil {
		t.holds = map[lockKey]*hold{}
	}
	h := &hold{count: 1, since: o.since, text: shorten(o.text), stack: o.where()}
	t.holds[k] = h
	if d := t.pool.cfg.holdLimit; d > 0 {
		h.limit = time.AfterFunc(d, func() { t.heldTooLong(k, h) })
	}
}

func (t *holdTable) heldTooLong(k lockKey, h *hold) {
	t.mu.Lock()
	held := t.holds[k] == h
	r := Report{Kind: HeldTooLong, Statement: h.text, Stack: h.stack, Holds: []Hold{t.holdLocked(k, h)}, Time: time.Now()}
	t.mu.Unlock()
	if held {
		t.pool.deliver(r)
	}
}

// dropLocked takes one hold of k away.
func (t *holdTable) dropLocked(k lockKey) {
	h := t.holds[k]
	if h == nil {
		return
	}
	t.pool.counters.released.Add(1)
	if h.count--; h.count == 0 {
		t.forgetLocked(k, h)
	}
}

func (t *holdTable) forgetLocked(k lockKey, h *hold) {
	if h.limit != nil {
		h.limit.Stop()
	}
	delete(t.holds, k)
}

func (t *holdTable) dropKindLocked(kind holdKind) {
	for k, h := range t.holds {
		if k.kind == kind {
			t.pool.counters.released.Add(int64(h.count))
			t.forgetLocked(k, h)
		}
	}
}

// dropBackupLocked: BACKUP STAGE END frees its stage, and BACKUP UNLOCK what BACKUP LOCK took.
func (t *holdTable) dropBackupLocked(object string) {
	for k, h := range t.holds {
		if k.kind == kindBackup && (k.name == "STAGE") == (object == "STAGE") {
			t.pool.counters.released.Add(int64(h.count))
			t.forgetLocked(k, h)
		}
	}
}

// clearLocked: the server has said that nothing of class c is held.
func (t *holdTable) clearLocked(c class) {
	for k, h := range t.holds {
		if k.kind.class()&c != 0 {
			t.pool.counters.released.Add(int64(h.count))
			t.forgetLocked(k, h)
		}
	}
	if t.doubt &^= c; t.doubt == 0 {
		t.why = nil
	}
}

func (t *holdTable) holdLocked(k lockKey, h *hold) Hold {
	return Hold{
		Kind: k.kind.String(), Key: k.name, Shared: k.shared, Count: h.count,
		Since: h.since, Statement: h.text, Stack: h.stack, Conn: t.id,
	}
}

// list returns what the session is known to hold, oldest first.
func (t *holdTable) list() []Hold {
	t.mu.Lock()
	holder, holds := t.holder, t.listLocked()
	t.mu.Unlock()
	if holder != nil { // outside of mu: it has a lock of its own
		holds = append(holds, holder()...)
	}
	return holds
}

func (t *holdTable) setHolder(list func() []Hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holder = list
}

func (t *holdTable) listLocked() []Hold {
	var holds []Hold
	for k, h := range t.holds {
		holds = append(holds, t.holdLocked(k, h))
	}
	sortHolds(holds)
	return holds
}

// sortHolds puts the oldest first, and makes the order the same every time.
func sortHolds(holds []Hold) {
	slices.SortFunc(holds, func(a, b Hold) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Conn, b.Conn), cmp.Compare(a.Key, b.Key), cmp.Compare(a.String(), b.String()))
	})
}
