package sqllock

// A class is a kind of session state that the guard keeps apart: each has its own doubt and its own probe.
type class uint8

const (
	classLocks   class = 1 << iota // advisory locks (PostgreSQL) or named locks (MySQL and MariaDB)
	classTables                    // MySQL: LOCK TABLES, FLUSH ... WITH READ LOCK, LOCK INSTANCE, BACKUP
	classTx                        // a transaction opened by text and not by BeginTx
	classHandler                   // MySQL: HANDLER ... OPEN

	allClasses = classLocks | classTables | classTx | classHandler
)

// A verb is what a plain statement does: one whose effect its text and its result prove together.
type verb uint8

const (
	verbNone           verb = iota
	verbAcquire             // pg_advisory_lock[_shared]: waits, cannot answer "busy"
	verbTry                 // pg_try_advisory_lock[_shared], GET_LOCK: the value tells
	verbRelease             // pg_advisory_unlock[_shared], RELEASE_LOCK: the value tells
	verbReleaseAll          // pg_advisory_unlock_all, RELEASE_ALL_LOCKS
	verbTxLock              // pg_advisory_xact_lock[_shared]
	verbTryTxLock           // pg_try_advisory_xact_lock[_shared]
	verbBegin               // BEGIN, START TRANSACTION, XA START
	verbEnd                 // COMMIT, END, ROLLBACK, ABORT, PREPARE TRANSACTION: without AND CHAIN, not TO SAVEPOINT
	verbLockTables          // LOCK TABLE[S], FLUSH TABLES t WITH READ LOCK, FLUSH TABLES t FOR EXPORT: START TRANSACTION frees them
	verbLockGlobal          // FLUSH TABLES WITH READ LOCK: survives START TRANSACTION
	verbUnlockTables        // UNLOCK TABLE[S]: frees both of the above
	verbLockInstance        // LOCK INSTANCE FOR BACKUP
	verbUnlockInstance      // UNLOCK INSTANCE
	verbBackup              // BACKUP STAGE START (and the stages after it), BACKUP LOCK t
	verbBackupEnd           // BACKUP STAGE END, BACKUP UNLOCK
	verbHandlerOpen         // HANDLER t OPEN [AS a]
	verbHandlerClose        // HANDLER a CLOSE
	verbDiscardAll          // DISCARD ALL
	verbDeallocateAll       // DEALLOCATE [PREPARE] ALL
	verbCloseAll            // CLOSE ALL
)

// An operand is a key as the text has it.
type operand struct {
	text  string // a literal: the digits (with sign) or the string's content
	param int    // a parameter: its ordinal, 1 or more; 0 for a literal
}

// A statement is what the recogniser says of one text. The zero value means: nothing that concerns session locks.
type statement struct {
	verb   verb
	shared bool       // verbAcquire, verbTry, verbRelease: the shared form
	keys   [2]operand // the call's keys; GET_LOCK's time-out is not one
	nkeys  int
	object string // LOCK TABLES, BACKUP LOCK: the (first) name as written; BACKUP STAGE: STAGE; HANDLER: its alias or table

	may    class // it may change these in a way that neither text nor result can prove
	frees  class // it may release some of these (only): counts while something of the class is held
	marks  class // it prepares or declares something in the session that may do these when it is run
	cursor bool  // ... and what it declared is a cursor: the end of a transaction can run it (WITH HOLD)
	runs   bool  // it runs what the session may have prepared: EXECUTE, FETCH, MOVE
	txLock bool  // it calls the xact family in a form that is not plain
	opens  bool  // several statements, or one inside another: the last word on transactions opens one
	ends   bool  // several statements, or one inside another: the last word on transactions ends one
}

// harmless reports whether the text does nothing that concerns session locks.
func (s statement) harmless() bool { return s == statement{} }

// touches returns the class that a verb's effect belongs to.
func touches(_ Dialect, v verb) class {
	switch v {
	case verbAcquire, verbTry, verbRelease, verbReleaseAll, verbDiscardAll:
		return classLocks
	case verbBegin, verbEnd:
		return classTx
	case verbLockTables, verbLockGlobal, verbUnlockTables, verbLockInstance, verbUnlockInstance, verbBackup, verbBackupEnd:
		return classTables
	case verbHandlerOpen, verbHandlerClose:
		return classHandler
	}
	return 0 // transaction locks belong to no class; the others only end what marks tell of
}

// releases reports whether a verb can only release.
func (v verb) releases() bool {
	switch v {
	case verbRelease, verbReleaseAll, verbUnlockTables, verbUnlockInstance, verbBackupEnd, verbHandlerClose:
		return true
	}
	return false
}

// recognise says what text may do to the session's locks. It never fails: a text that is no SQL may do something or not.
func recognise(d Dialect, text string, fns lockFunctions) statement {
	r := recogniser{dialect: d, text: text, fns: fns}
	return r.recognise()
}
