package sqllock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/sqllocktest"
)

// Two replicas come to the same job at the same time: one runs it.
func ExampleRun() {
	ctx := context.Background()
	locker := sqllocktest.NewMemory() // in a program: sqllock.NewPostgres(db) or sqllock.NewMySQL(db)
	key := sqllock.Name("daily-settlement")

	ran, err := sqllock.Run(ctx, locker, key, func(ctx context.Context) error {
		fmt.Println("replica one settles")
		ran, err := sqllock.Run(ctx, locker, key, func(context.Context) error {
			fmt.Println("replica two settles")
			return nil
		})
		fmt.Println("replica two ran:", ran, err)
		return err
	})
	fmt.Println("replica one ran:", ran, err)
	// Output:
	// replica one settles
	// replica two ran: false <nil>
	// replica one ran: true <nil>
}

// A holder whose session ends is told by the lock's context, and Release says that the work was not protected to its end.
func ExampleLock_Context() {
	locker := sqllocktest.NewMemory()
	lock, err := locker.TryAcquire(context.Background(), sqllock.Name("leader"))
	if err != nil {
		fmt.Println(err)
		return
	}
	locker.Lose(sqllock.Name("leader"), errors.New("the server was restarted"))
	<-lock.Context().Done()
	fmt.Println(errors.Is(context.Cause(lock.Context()), sqllock.ErrLost))
	fmt.Println(errors.Is(lock.Release(), sqllock.ErrLost))
	// Output:
	// true
	// true
}

// Several keys have one spelling in psql and on MySQL, for people and for other languages.
func ExampleNamespace_Name() {
	k := sqllock.Namespace("billing").Name("invoices")
	fmt.Println(k)
	fmt.Println(k.Int64())
	fmt.Println(k.MySQLName())
	// Output:
	// billing/invoices
	// -1154715916166529186
	// billing/invoices~eff99ffe00677f5e85959483d0eb4a3b
}
