package sqllocktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/lockertest"
	"github.com/sqllock/sqllock/sqllocktest"
)

// A Memory does what the real lockers do.
func TestMemoryConforms(t *testing.T) {
	m := sqllocktest.NewMemory()
	lockertest.Run(t, lockertest.Site{
		New:    func(testing.TB) sqllock.Locker { return m },
		Shared: func(l sqllock.Locker) sqllock.Locker { return l.(*sqllocktest.Memory).Shared() },
		Lose: func(t testing.TB, key sqllock.Key) {
			if !m.Lose(key, errors.New("the test's reason")) {
				t.Errorf("nobody held %v", key)
			}
		},
		AwaitFree: func(t testing.TB) {
			if held := m.Held(); len(held) > 0 {
				t.Errorf("still held: %v", held)
			}
		},
	})
}

func TestMemoryTokensGrow(t *testing.T) {
	m := sqllocktest.NewMemory()
	var last int64
	for range 3 {
		lock, err := m.TryAcquire(t.Context(), sqllock.Name("x"))
		if err != nil {
			t.Fatal(err)
		}
		if lock.Token() <= last {
			t.Errorf("token %d after %d", lock.Token(), last)
		}
		last = lock.Token()
		lock.Release()
	}
}

// Whoever is next has the key as soon as Lose returns, and the loser's reason is the test's.
func TestMemoryLose(t *testing.T) {
	m, key, why := sqllocktest.NewMemory(), sqllock.Name("x"), errors.New("the test's reason")
	if m.Lose(key, why) {
		t.Error("Lose of a free key: true")
	}
	lock, err := m.TryAcquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	m.Lose(key, why)
	if cause := context.Cause(lock.Context()); !errors.Is(cause, why) || !errors.Is(cause, sqllock.ErrLost) {
		t.Errorf("cause %v", cause)
	}
	next, err := m.TryAcquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); !errors.Is(err, why) {
		t.Errorf("Release: %v", err)
	}
	if _, err := m.TryAcquire(t.Context(), key); !errors.Is(err, sqllock.ErrHeld) {
		t.Errorf("the loser's Release has released the next one's lock: %v", err)
	}
	next.Release()
}

func ExampleMemory() {
	locker := sqllocktest.NewMemory() // in the program: sqllock.NewPostgres(db)
	settlement := sqllock.Name("daily-settlement")
	ran, err := sqllock.Run(context.Background(), locker, settlement, func(ctx context.Context) error {
		locker.Lose(settlement, errors.New("the database failed over"))
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println(ran, errors.Is(err, sqllock.ErrLost))
	// Output: true true
}
