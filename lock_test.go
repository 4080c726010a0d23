package sqllock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sqllock/sqllock"
)

var (
	_ sqllock.Locker = (*sqllock.Postgres)(nil)
	_ sqllock.Locker = (*sqllock.MySQL)(nil)
)

// A Locker of one's own needs NewLock only.
func TestNewLock(t *testing.T) {
	broken, why := errors.New("cannot release"), errors.New("the reason")
	for _, c := range []struct {
		name    string
		release error
		lose    bool
		cause   error // of the loss
		want    []error
	}{
		{name: "released"},
		{name: "release fails", release: broken, want: []error{broken}},
		{name: "lost", lose: true, cause: why, want: []error{sqllock.ErrLost, why}},
		{name: "lost without a reason", lose: true, want: []error{sqllock.ErrLost}},
		{name: "lost for being lost", lose: true, cause: fmt.Errorf("%w: twice", sqllock.ErrLost), want: []error{sqllock.ErrLost}},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			lock, lose := sqllock.NewLock(t.Context(), sqllock.Name("x"), 7, func() error { calls++; return c.release })
			if lock.Key() != sqllock.Name("x") || lock.Token() != 7 || lock.Context().Err() != nil {
				t.Errorf("a fresh lock: %v, %d, %v", lock.Key(), lock.Token(), lock.Context().Err())
			}
			if c.lose {
				lose(c.cause)
			}
			for range 2 {
				err := lock.Release()
				for _, want := range c.want {
					if !errors.Is(err, want) {
						t.Errorf("Release: %v, want %v", err, want)
					}
				}
				if len(c.want) == 0 && err != nil {
					t.Errorf("Release: %v", err)
				}
			}
			lose(errors.New("too late"))
			cause := context.Cause(lock.Context())
			if lost := errors.Is(cause, sqllock.ErrLost); lost != c.lose || errors.Is(cause, sqllock.ErrReleased) == lost {
				t.Errorf("cause: %v", cause)
			}
			if calls != 1 {
				t.Errorf("release was called %d times", calls)
			}
		})
	}
}

// The context has ended before anybody else can have the key.
func TestReleaseEndsTheContextFirst(t *testing.T) {
	var lock *sqllock.Lock
	lock, _ = sqllock.NewLock(t.Context(), sqllock.Name("x"), 0, func() error {
		if lock.Context().Err() == nil {
			t.Error("the key is given up while the work goes on")
		}
		return nil
	})
	lock.Release()
}

// Who holds it is asked for, and costs nothing otherwise.
func TestHolder(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		for _, key := range []sqllock.Key{testKey(t), sqllock.Pair(-1, int32(testKey(t).Int64())), sqllock.ID(testKey(t).Int64() | -1<<63)} {
			lock := mustTry(t, p.locker(t), key)
			_, err := p.locker(t).TryAcquire(t.Context(), key)
			var held *sqllock.HeldError
			if !errors.As(err, &held) {
				t.Fatal(err)
			}
			who, err := held.Holder(t.Context())
			if err != nil || !strings.Contains(who, "test") || !strings.ContainsAny(who, "0123456789") {
				t.Errorf("Holder: %q, %v", who, err)
			}
			mustRelease(t, lock)
			if who, err := held.Holder(t.Context()); who != "" || err != nil {
				t.Errorf("Holder of a free key: %q, %v", who, err)
			}
		}
	})
}
