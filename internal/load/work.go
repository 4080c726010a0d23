package load

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// patience bounds one operation: none should need it.
const patience = 30 * time.Second

// work does what an honest program does, until it is done.
func (w *worker) work(done *atomic.Bool, count *atomic.Int64) {
	for !done.Load() && w.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(w.ctx, patience)
		err := w.ordinary(ctx)
		cancel()
		if err == nil {
			count.Add(1)
		} else if w.ctx.Err() == nil {
			w.add("ordinary work", err)
		}
	}
}

// ordinary is one operation: reads mostly, some writes, and a lock that is taken and released as it should be.
func (w *worker) ordinary(ctx context.Context) error {
	switch p := w.rand.IntN(10); {
	case p < 5:
		var s string
		return w.db.QueryRowContext(ctx, w.dialect.point, w.rand.IntN(goroutines)).Scan(&s)
	case p < 6:
		return w.scan(ctx)
	case p < 7:
		return w.prepared(ctx)
	case p < 9:
		return w.update(ctx)
	}
	return w.lockAndUnlock(ctx)
}

func (w *worker) scan(ctx context.Context) error {
	rows, err := w.db.QueryContext(ctx, "SELECT a, s FROM load_t ORDER BY a LIMIT 10")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

func (w *worker) prepared(ctx context.Context) error {
	stmt, err := w.db.PrepareContext(ctx, w.dialect.point)
	if err != nil {
		return err
	}
	var s string
	return errors.Join(stmt.QueryRowContext(ctx, w.n).Scan(&s), stmt.Close())
}

func (w *worker) update(ctx context.Context) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, w.dialect.update, w.n); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// lockAndUnlock uses a key of the goroutine's own: if it is not free, somebody else's session has kept it.
func (w *worker) lockAndUnlock(ctx context.Context) error {
	c, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, call := range []string{w.dialect.try, w.dialect.unlock} {
		var ok sql.NullBool
		if err := c.QueryRowContext(ctx, call, w.dialect.ownKey(w.n)).Scan(&ok); err != nil {
			return err
		}
		if !ok.Bool {
			return fmt.Errorf("%s of a key that nobody else uses says %v", call, ok)
		}
	}
	return nil
}
