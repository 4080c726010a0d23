package load

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sqllock/sqllock"
)

// A way is how a lock leaks.
type way struct {
	name        string
	only        string // a driver, or a server's kind
	least, most int    // reports that the guard makes of it
	leak        func(a *attempt) error
}

// An attempt is one lock that leaks in one way. Its number is nobody else's.
type attempt struct {
	*worker
	way    *way
	ctx    context.Context
	number int64
	lock   string // what the watch calls it; "" until a way that only then knows it says so
}

var attempts atomic.Int64

// leak leaks in one way after the other, in an order of its own, until it is done.
func (w *worker) leak(done *atomic.Bool) {
	ways := w.dialect.waysOf(w.cfg.Driver)
	for {
		for _, i := range w.rand.Perm(len(ways)) {
			if done.Load() || w.ctx.Err() != nil {
				return
			}
			if err := w.leakOnce(&ways[i]); err != nil && w.ctx.Err() == nil {
				w.add("leak by "+ways[i].name, err)
			}
			time.Sleep(w.cfg.Pause)
		}
	}
}

func (w *worker) leakOnce(m *way) error {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	a := &attempt{worker: w, way: m, ctx: ctx, number: attempts.Add(1)}
	if !strings.Contains(m.name, "table") {
		a.expect(w.dialect.lockName(a.number))
	}
	err := m.leak(a)
	a.returning()
	if err == nil {
		w.watch.made(m)
	}
	return err
}

func (a *attempt) expect(lock string) {
	a.lock = lock
	a.watch.expect(lock, a.way.name)
}

// returning is called before what gives the connection back, where there is such a call.
func (a *attempt) returning() {
	if a.lock != "" {
		a.watch.returned(a.lock)
	}
}

// key is the attempt's own, as an argument.
func (a *attempt) key() any { return a.dialect.argument(a.number) }

// text writes the key into a text, and the goroutine's own number.
func (a *attempt) text(s string) string {
	return strings.NewReplacer("{key}", a.dialect.literal(a.number), "{n}", fmt.Sprint(a.n)).Replace(s)
}

// exec is an Exec on the pool: it has given the connection back when it returns.
func exec(text string) func(*attempt) error {
	return func(a *attempt) error {
		_, err := a.db.ExecContext(a.ctx, a.text(text), a.args(text)...)
		return err
	}
}

func query(text string) func(*attempt) error {
	return func(a *attempt) error { return one(a.ctx, a.db, a.text(text), a.args(text)...) }
}

// args are the key for each mark.
func (a *attempt) args(text string) []any {
	n := strings.Count(text, "?")
	if a.dialect.postgres {
		n = min(1, strings.Count(text, "$1"))
	}
	args := make([]any, n)
	for i := range args {
		args[i] = a.key()
	}
	return args
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// one reads all that a query answers.
func one(ctx context.Context, c querier, text string, args ...any) error {
	rows, err := c.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
		}
	}
	return rows.Err()
}

// onConn sends queries on one connection, and gives that back. A text that begins with ! is sent by Exec, one with ~ may fail.
func onConn(texts ...string) func(*attempt) error {
	return func(a *attempt) error {
		c, err := a.db.Conn(a.ctx)
		if err != nil {
			return err
		}
		err = a.send(a.ctx, c, texts)
		a.returning()
		return errors.Join(err, c.Close())
	}
}

func (a *attempt) send(ctx context.Context, c querier, texts []string) error {
	for _, text := range texts {
		plain := strings.TrimLeft(text, "!~")
		var err error
		if strings.Contains(text[:len(text)-len(plain)], "!") {
			_, err = c.ExecContext(ctx, a.text(plain), a.args(plain)...)
		} else {
			err = one(ctx, c, a.text(plain), a.args(plain)...)
		}
		if err != nil && !strings.HasPrefix(strings.TrimPrefix(text, "!"), "~") {
			return fmt.Errorf("%s: %w", plain, err)
		}
	}
	return nil
}

// inTx sends queries in a transaction, and ends that.
func inTx(end func(*sql.Tx) error, texts ...string) func(*attempt) error {
	return func(a *attempt) error {
		tx, err := a.db.BeginTx(a.ctx, nil)
		if err != nil {
			return err
		}
		err = a.send(a.ctx, tx, texts)
		a.returning()
		return errors.Join(err, end(tx))
	}
}

// prepared runs the query by a statement of the pool's.
func prepared(text string) func(*attempt) error {
	return func(a *attempt) error {
		stmt, err := a.db.PrepareContext(a.ctx, text)
		if err != nil {
			return err
		}
		rows, err := stmt.QueryContext(a.ctx, a.args(text)...)
		if err != nil {
			return errors.Join(err, stmt.Close())
		}
		rows.Next()
		a.returning()
		return errors.Join(rows.Close(), stmt.Close())
	}
}

// partlyRead gives up after the first row of many.
func partlyRead(text string) func(*attempt) error {
	return func(a *attempt) error {
		rows, err := a.db.QueryContext(a.ctx, text, a.args(text)...)
		if err != nil {
			return err
		}
		rows.Next()
		a.returning()
		return rows.Close()
	}
}

const soon = 40 * time.Millisecond

// cancelled takes the lock and is cancelled in the middle of what it does then. The operation runs until the call returns.
func cancelled(text string) func(*attempt) error {
	return func(a *attempt) error {
		ctx, cancel := context.WithCancel(a.ctx)
		defer time.AfterFunc(soon, cancel).Stop()
		return a.ended(one(ctx, a.db, a.text(text), a.args(text)...))
	}
}

// deadline does the same in a transaction whose deadline passes, after the lock was taken.
func deadline(lock, sleep string) func(*attempt) error {
	return func(a *attempt) error {
		ctx, cancel := context.WithTimeout(a.ctx, patience/2)
		defer cancel()
		tx, err := a.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := a.send(ctx, tx, []string{lock}); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		short, stop := context.WithTimeout(ctx, soon)
		defer stop()
		err = a.ended(one(short, tx, sleep))
		a.returning()
		_ = tx.Rollback() // the driver may have given the connection up
		return err
	}
}

// ended wants an operation to have been ended; whatever the driver calls it.
func (a *attempt) ended(err error) error {
	if err == nil {
		return errors.New("nothing was cut off")
	}
	return nil
}

// panics is a caller who does not come to the unlock, and closes by defer.
func panics(lock string) func(*attempt) error {
	return func(a *attempt) (err error) {
		defer func() {
			if p := recover(); p != "on purpose" {
				panic(p)
			}
		}()
		c, err := a.db.Conn(a.ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		defer a.returning()
		if err := a.send(a.ctx, c, []string{lock}); err != nil {
			return err
		}
		panic("on purpose")
	}
}

// badConn tells database/sql that the connection is broken, which it is not.
func badConn(lock string) func(*attempt) error {
	return func(a *attempt) error {
		c, err := a.db.Conn(a.ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := a.send(a.ctx, c, []string{lock}); err != nil {
			return err
		}
		a.returning()
		if err := c.Raw(func(any) error { return driver.ErrBadConn }); !errors.Is(err, driver.ErrBadConn) {
			return fmt.Errorf("a call of Raw says %v", err)
		}
		return nil
	}
}

// raw does something with the driver's own connection, which the guard does not see.
func raw(do func(a *attempt, dc driver.Conn) error) func(*attempt) error {
	return func(a *attempt) error {
		c, err := a.db.Conn(a.ctx)
		if err != nil {
			return err
		}
		err = c.Raw(func(dc any) error { return do(a, sqllock.Unwrap(dc)) })
		a.returning()
		return errors.Join(err, c.Close())
	}
}

// misplaced unlocks on whatever connection comes.
func misplaced(lock, unlock string) func(*attempt) error {
	return func(a *attempt) error {
		return errors.Join(query(lock)(a), query(unlock)(a))
	}
}
