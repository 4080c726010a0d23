package torture

import (
	"context"
	"time"

	"github.com/sqllock/sqllock"
)

// inTx takes the lock of a transaction. Nobody watches that: its end tells whether the lock was held to it.
func (t *task) inTx(ctx context.Context) {
	t.Op, t.Bound = "lock tx", time.Hour
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		t.end(err)
		return
	}
	defer tx.Rollback() //nolint:errcheck // committed, or of no use
	if t.r.IntN(2) == 0 {
		err = sqllock.LockTx(ctx, tx, sqllock.Name(t.Key))
	} else if ok, tryErr := sqllock.TryLockTx(ctx, tx, sqllock.Name(t.Key)); tryErr != nil || !ok {
		err = orHeld(tryErr)
	}
	if err == nil {
		t.section(ctx)
		if _, err = tx.ExecContext(ctx, "SELECT 1"); err == nil { // lib/pq commits a transaction that has failed
			err = tx.Commit()
		}
	}
	t.end(err)
}

func orHeld(err error) error {
	if err == nil {
		return sqllock.ErrHeld
	}
	return err
}
