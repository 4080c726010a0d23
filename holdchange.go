package sqllock

import "time"

// What a statement, or the end of a transaction, changes in a hold table.

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
