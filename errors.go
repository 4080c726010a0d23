package sqllock

import "errors"

// The errors of this package that a program decides by. They come wrapped: use [errors.Is]. The driver's own error
// is reached with [errors.As] where there is one.
var (
	// ErrHeld says that another session, or another holder in this process, holds the key.
	// [errors.As] to [*HeldError] can ask who.
	ErrHeld = errors.New("sqllock: held by another session")
	// ErrLost says that the session which held the lock has ended: somebody else may hold the key now.
	ErrLost = errors.New("sqllock: the lock is lost: its session has ended")
	// ErrReleased is the cause of a lock's context after Release.
	ErrReleased = errors.New("sqllock: the lock was released")
	// ErrDeadlock says that the server chose this waiter to end a deadlock. Acquire several keys in one order, as AcquireAll does.
	ErrDeadlock = errors.New("sqllock: deadlock")
	// ErrUnsupported says that this cannot work here: the text names the reason and the remedy.
	ErrUnsupported = errors.New("sqllock: unsupported")
	// ErrPoolTooSmall says that the pool has no connection to spare: a locker never takes the last one.
	// Raise SetMaxOpenConns, or give the locker a *sql.DB of its own.
	ErrPoolTooSmall = errors.New("sqllock: the pool is too small")
	// ErrNotGuarded says that a pool's driver is not one of sqllock's.
	ErrNotGuarded = errors.New("sqllock: this pool's driver is not guarded: open it with a driver name registered through sqllock.Wrap, or with sqllock.OpenDB")
)
