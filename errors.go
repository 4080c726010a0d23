package sqllock

import "errors"

// ErrNotGuarded says that a pool's driver is not one of sqllock's: open it with a guarded driver name
// (see [Wrap]) or with [OpenDB].
var ErrNotGuarded = errors.New("sqllock: this pool's driver is not guarded: open it with a driver name registered through sqllock.Wrap, or with sqllock.OpenDB")
