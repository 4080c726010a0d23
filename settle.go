package sqllock

import (
	"slices"
	"time"
)

// The questions that the keep-or-discard decision asks of a hold table, and what it writes back.

func (t *holdTable) isDead() bool {
	if !t.touched.Load() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dead
}

// clean says that nothing is held and nothing is in doubt.
func (t *holdTable) clean() bool {
	if !t.touched.Load() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	clean := len(t.holds) == 0 && t.doubtLocked() == 0
	t.touched.Store(!clean || t.dead)
	return clean
}

// doubtLocked is what is unverified now: an open manual transaction and a statement that
// never came to its end are doubts, too.
func (t *holdTable) doubtLocked() class {
	d := t.doubt
	if t.manualTx != nil {
		d |= classTx
	}
	if t.underway > 0 {
		d |= classesOf(t.pool.cfg.dialect)
	}
	return d
}

// classesOf are the classes that a dialect has.
func classesOf(d Dialect) class {
	if d == DialectPostgres {
		return classLocks | classTx
	}
	return allClasses
}

func (t *holdTable) doubtful(c class) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doubtLocked()&c != 0
}

// setInTransaction takes the driver's own word on whether a transaction is open.
func (t *holdTable) setInTransaction(open bool) {
	if !open && !t.touched.Load() {
		return
	}
	t.touched.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !open:
		t.manualTx = nil
		t.clearLocked(classTx)
	case t.manualTx == nil:
		t.manualTx = &doubt{text: "a transaction that is still open", since: time.Now()}
	}
}

// adopt brings the locks in line with what the server says: what it names is held, everything else is not.
func (t *holdTable) adopt(found []lockKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	why := t.why
	if why == nil {
		why = &doubt{text: "not seen: inside a function, procedure, trigger or view", since: time.Now()}
	}
	if len(found) > 0 && t.pool.cfg.dialect == DialectMySQL && t.holdsLocked(classLocks) {
		t.doubt &^= classLocks // the server gives a number and no names: the names that are known say it better
		return
	}
	for k, h := range t.holds {
		if k.kind.class() == classLocks && !slices.Contains(found, k) {
			t.forgetLocked(k, h)
		}
	}
	t.doubt &^= classLocks
	for _, k := range found {
		if t.holds[k] == nil {
			t.addLocked(k, &observation{text: why.text, stack: why.stack, since: why.since})
		}
	}
	if t.doubt == 0 {
		t.why = nil
	}
}

// reset forgets everything: the server has confirmed that it is released.
func (t *holdTable) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clearLocked(allClasses)
}

// holdsOther says whether something is held that no statement releases and proves.
func (t *holdTable) holdsOther() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.holds {
		if k.kind == kindInstance || k.kind == kindBackup || k.kind == kindHandler {
			return true
		}
	}
	return false
}

// takeLost returns what was held and forgets it: the session is gone.
func (t *holdTable) takeLost() []Hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	holds := t.listLocked()
	for k, h := range t.holds {
		t.forgetLocked(k, h)
	}
	t.doubt, t.why = 0, nil
	return holds
}

// takeUnreported returns what ReportOnly has not reported yet, and marks it.
func (t *holdTable) takeUnreported() []Hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	var holds []Hold
	for k, h := range t.holds {
		if !h.reported {
			h.reported = true
			holds = append(holds, t.holdLocked(k, h))
		}
	}
	t.doubt, t.why, t.manualTx = 0, nil, nil
	sortHolds(holds)
	return holds
}

// doubtReport names the statement that raised the doubt, and what is known to be held.
func (t *holdTable) doubtReport() *Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &Report{Holds: t.listLocked(), Time: time.Now()}
	why := t.why
	if t.manualTx != nil {
		why = t.manualTx
	}
	if why != nil {
		r.Statement, r.Stack = shorten(why.text), why.stack
	}
	return r
}

// unwrapped: somebody has the driver's own connection, and what is done with it is not seen.
func (t *holdTable) unwrapped(d Dialect) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raiseLocked(classesOf(d), &observation{text: "sqllock.Unwrap", since: time.Now()})
}

// rewritten: an argument replaces the text that is sent.
func (t *holdTable) rewritten() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raiseLocked(classesOf(t.pool.cfg.dialect), &observation{text: "a pgx.QueryRewriter that is not known", since: time.Now()})
}
