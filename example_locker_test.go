package sqllock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/sqllocktest"
)

// The in-memory locker stands for sqllock.NewPostgres(db) or sqllock.NewMySQL(db), which do the same on a server.

func ExampleLocker() {
	ctx := context.Background()
	var locker sqllock.Locker = sqllocktest.NewMemory()
	lock, err := locker.Acquire(ctx, sqllock.Namespace("billing").Name("invoices"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = locker.TryAcquire(ctx, sqllock.Namespace("billing").Name("invoices"))
	fmt.Println(err, errors.Is(err, sqllock.ErrHeld))
	fmt.Println(lock.Release())
	// Output:
	// sqllock: billing/invoices is held by another session true
	// <nil>
}

func ExampleNewLock() {
	released := func() error { fmt.Println("given up"); return nil }
	lock, lose := sqllock.NewLock(context.Background(), sqllock.Name("file"), 0, released)
	fmt.Println(lock.Release())
	lose(errors.New("too late")) // does nothing
	fmt.Println(lock.Release())
	// Output:
	// given up
	// <nil>
	// <nil>
}

func ExampleMigrateKey() {
	fmt.Println(sqllock.MigrateKey("database_name").Int64())
	// Output: 1764327054
}
