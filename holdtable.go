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

// finish applies what a statement did. It returns what is to be reported: a misplaced unlock or a transaction
// lock outside of a transaction.
func (t *holdTable) finish(o *observation, err error, exec bool) *Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underway--
	t.markLocked(o, err)
	switch {
	case err != nil:
		t.failedLocked(o)
	case o.s.verb >= verbAcquire && o.s.verb <= verbReleaseAll:
		return t.lockCallLocked(o, exec)
	case o.s.txLock || o.s.verb == verbTxLock || o.s.verb == verbTryTxLock:
		return t.txLockLocked(o)
	default:
		t.plainLocked(o)
	}
	return nil
}

// markLocked takes note of everything but the verb: what may have happened, and what may happen later.
func (t *holdTable) markLocked(o *observation, err error) {
	s := o.s
	t.marks |= s.marks
	t.cursor = t.cursor || s.cursor
	d := s.may
	if t.holdsLocked(s.frees) {
		d |= s.frees
	}
	if s.runs {
		d |= t.marks
	}
	switch {
	case (s.opens || s.ends) && err != nil:
		d |= classTx
	case s.opens:
		t.manualTx = o.doubt()
	case s.ends:
		t.endTxLocked(o)
	}
	t.raiseLocked(d, o)
}

func (t *holdTable) raiseLocked(d class, o *observation) {
	if d == 0 {
		return
	}
	t.touched.Store(true)
	t.doubt |= d
	if t.why == nil {
		t.why = o.doubt()
	}
}

// failedLocked: "not held" is not proven by an error, and neither is "released".
func (t *holdTable) failedLocked(o *observation) {
	c := touches(t.pool.cfg.dialect, o.s.verb)
	if (o.s.verb.releases() || o.s.verb == verbDiscardAll) && !t.holdsLocked(c) {
		return
	}
	t.raiseLocked(c, o)
}

// lockCallLocked applies a plain call of a lock function that was answered.
func (t *holdTable) lockCallLocked(o *observation, exec bool) *Report {
	if !exec && o.rows != 1 || o.s.nkeys > 0 && !o.keyed {
		t.raiseLocked(classLocks, o)
		return nil
	}
	switch v := o.s.verb; {
	case v == verbReleaseAll:
		t.clearLocked(classLocks)
	case v == verbRelease:
		return t.releasedLocked(o, exec)
	case v == verbAcquire && (exec || o.value == yes), v == verbTry && o.value == yes:
		t.addLocked(o.key, o)
	case o.value == unseen: // a try whose answer nobody read
		t.raiseLocked(classLocks, o)
	}
	return nil
}

func (t *holdTable) releasedLocked(o *observation, exec bool) *Report {
	known := t.holds[o.key] != nil
	switch {
	case !exec && (o.value == no || o.value == null):
		return &Report{Kind: MisplacedUnlock, Statement: shorten(o.text), Stack: o.where(), Key: o.key.name, Time: time.Now()}
	case known:
		t.dropLocked(o.key)
	case o.value == yes || t.holdsLocked(classLocks): // another spelling of a key, or one taken unseen
		t.raiseLocked(classLocks, o)
	}
	return nil
}

// txLockLocked: a transaction lock that is taken in autocommit is gone before the call returns.
func (t *holdTable) txLockLocked(o *observation) *Report {
	if t.inTx || t.manualTx != nil || t.doubt&classTx != 0 || o.value == no || o.value == null {
		return nil
	}
	return &Report{Kind: TxLockOutsideTx, Statement: shorten(o.text), Stack: o.where(), Key: o.key.name, Time: time.Now()}
}

// plainLocked applies a plain statement that is no call of a lock function.
func (t *holdTable) plainLocked(o *observation) {
	switch o.s.verb {
	case verbBegin:
		t.manualTx = o.doubt()
		t.dropKindLocked(kindTable) // MySQL: START TRANSACTION frees them
	case verbEnd:
		t.endTxLocked(o)
	case verbLockTables:
		t.dropKindLocked(kindTable) // so does LOCK TABLES, first of all
		t.takeLocked(kindTable, o)
	case verbLockGlobal:
		t.takeLocked(kindGlobal, o)
	case verbLockInstance:
		t.takeLocked(kindInstance, o)
	case verbBackup:
		t.takeLocked(kindBackup, o)
	case verbHandlerOpen:
		t.takeLocked(kindHandler, o)
	case verbUnlockTables:
		t.dropKindLocked(kindTable)
		t.dropKindLocked(kindGlobal)
	case verbUnlockInstance:
		t.dropKindLocked(kindInstance)
	case verbBackupEnd:
		t.dropBackupLocked(o.s.object)
	case verbHandlerClose:
		t.dropLocked(lockKey{kind: kindHandler, name: o.s.object})
	case verbDiscardAll:
		t.clearLocked(classLocks)
		t.marks, t.cursor = 0, false
	case verbDeallocateAll:
		if !t.cursor {
			t.marks = 0
		}
	case verbCloseAll:
		t.cursor = false
	}
}

// takeLocked adds a lock that its own statement names.
func (t *holdTable) takeLocked(kind holdKind, o *observation) {
	t.addLocked(lockKey{kind: kind, name: o.s.object}, o)
}

// endTxLocked: the end of a transaction runs what a WITH HOLD cursor was declared for.
func (t *holdTable) endTxLocked(o *observation) {
	t.manualTx, t.inTx = nil, false
	if t.cursor {
		t.raiseLocked(t.marks, o)
	}
}

// began takes note of BeginTx. MySQL's START TRANSACTION frees table locks.
func (t *holdTable) began() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inTx = true
	t.dropKindLocked(kindTable)
}

// txDone takes note of Commit and Rollback.
func (t *holdTable) txDone(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inTx = false
	if err == nil {
		t.manualTx = nil
	}
	if t.cursor {
		t.raiseLocked(t.marks, &observation{text: "COMMIT or ROLLBACK, with a cursor declared on a lock call", since: time.Now()})
	}
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
