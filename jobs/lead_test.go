package jobs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
	"github.com/sqllock/sqllock/sqllocktest"
)

// quick are the options of a campaign that a test can wait for.
func quick(more ...jobs.LeadOption) []jobs.LeadOption {
	return append([]jobs.LeadOption{jobs.WithCampaign(10 * time.Millisecond), jobs.WithStepUpDelay(0), jobs.WithLeadReport(func(error) {})}, more...)
}

var leader = sqllock.Name("leader")

func TestLeadReturns(t *testing.T) {
	t.Parallel()
	m := sqllocktest.NewMemory()
	fails := errors.New("fails")
	for _, want := range []error{nil, fails} {
		err := jobs.Lead(t.Context(), m, leader, func(context.Context) error {
			if len(m.Held()) != 1 {
				t.Error("leads without the lock")
			}
			return want
		}, quick()...)
		if !errors.Is(err, want) || len(m.Held()) != 0 {
			t.Errorf("Lead: %v, want %v; held: %v", err, want, m.Held())
		}
	}
}

func TestLeadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	m := sqllocktest.NewMemory()
	ctx, cancel := context.WithCancel(t.Context())
	err := jobs.Lead(ctx, m, leader, func(leading context.Context) error {
		follower, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer stop()
		err := jobs.Lead(follower, m, leader, func(context.Context) error { t.Error("two lead"); return nil }, quick()...)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the follower's campaign: %v", err)
		}
		cancel()
		<-leading.Done()
		return leading.Err()
	}, quick()...)
	if !errors.Is(err, context.Canceled) || len(m.Held()) != 0 {
		t.Errorf("Lead: %v; held: %v", err, m.Held())
	}
}

// A leader that loses the lock campaigns again, and not before lead has returned.
func TestLeadAfterLoss(t *testing.T) {
	t.Parallel()
	m := sqllocktest.NewMemory()
	terms := 0
	var inside atomic.Int32
	err := jobs.Lead(t.Context(), m, leader, func(ctx context.Context) error {
		if inside.Add(1) != 1 {
			t.Error("lead runs twice")
		}
		defer inside.Add(-1)
		if terms++; terms == 3 {
			return nil
		}
		m.Lose(leader, nil)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), sqllock.ErrLost) || len(m.Held()) != 0 {
			t.Errorf("cause %v, held %v", context.Cause(ctx), m.Held())
		}
		time.Sleep(30 * time.Millisecond) // three campaigns' time
		if len(m.Held()) != 0 {
			t.Error("it campaigned while lead ran")
		}
		return map[int]error{1: nil, 2: errors.New("whatever")}[terms]
	}, quick()...)
	if err != nil || terms != 3 {
		t.Errorf("Lead: %v after %d terms", err, terms)
	}
}

func TestLeadLostWhileItSteppedUp(t *testing.T) {
	t.Parallel()
	m := sqllocktest.NewMemory()
	var reports atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() {
		end <- jobs.Lead(ctx, m, leader, func(context.Context) error { t.Error("leads"); return nil },
			quick(jobs.WithStepUpDelay(time.Hour), jobs.WithLeadReport(func(error) { reports.Add(1) }))...)
	}()
	for want := range int32(2) {
		await(t, "elected", 5*time.Second, func() bool { return m.Lose(leader, nil) })
		await(t, "reported", 5*time.Second, func() bool { return reports.Load() == want+1 })
	}
	cancel()
	if err := <-end; !errors.Is(err, context.Canceled) || len(m.Held()) != 0 {
		t.Errorf("Lead: %v; held: %v", err, m.Held())
	}
}

type failing struct{ errs chan error }

func (f failing) TryAcquire(ctx context.Context, key sqllock.Key) (*sqllock.Lock, error) {
	if err := <-f.errs; err != nil {
		return nil, err
	}
	lock, _ := sqllock.NewLock(ctx, key, 0, func() error { return nil })
	return lock, nil
}

func (f failing) Acquire(ctx context.Context, key sqllock.Key) (*sqllock.Lock, error) {
	return f.TryAcquire(ctx, key)
}

func TestLeadErrors(t *testing.T) {
	t.Parallel()
	down := errors.New("server down")
	for name, c := range map[string]struct {
		errs []error
		want error
	}{
		"a mistake":           {[]error{down, sqllock.ErrUnsupported}, sqllock.ErrUnsupported},
		"later a standby":     {[]error{sqllock.ErrHeld, sqllock.ErrUnsupported, down, nil}, nil},
		"too small":           {[]error{sqllock.ErrPoolTooSmall}, sqllock.ErrPoolTooSmall},
		"too small for a bit": {[]error{sqllock.ErrHeld, sqllock.ErrPoolTooSmall, nil}, nil},
	} {
		f := failing{make(chan error, 9)}
		for _, e := range c.errs {
			f.errs <- e
		}
		if err := jobs.Lead(t.Context(), f, leader, func(context.Context) error { return nil }, quick()...); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for _, o := range []jobs.LeadOption{jobs.WithCampaign(0), jobs.WithStepUpDelay(-1), jobs.WithLeadReport(nil), jobs.WithWritable(nil)} {
		if err := jobs.Lead(t.Context(), failing{}, leader, nil, o); err == nil {
			t.Error("a bad option is taken")
		}
	}
}

// A killed session frees the lock at once. The newcomer waits for the step-up delay: by then the old leader knows.
func TestLeadAfterAKilledSession(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		a, b := open(t, s), open(t, s)
		const delay = 300 * time.Millisecond
		var killed, told atomic.Int64 // UnixNano
		ctx, cancel := context.WithCancel(t.Context())
		elected, over := make(chan struct{}), make(chan error, 1)
		go func() {
			over <- jobs.Lead(ctx, a.locker, leader, func(leading context.Context) error {
				close(elected)
				<-leading.Done()
				told.Store(time.Now().UnixNano())
				<-ctx.Done() // goes on, which it should not
				return nil
			}, quick()...)
		}()
		<-elected
		killed.Store(time.Now().UnixNano())
		killHolders(t, s)
		err := jobs.Lead(t.Context(), b.locker, leader, func(context.Context) error {
			if since := time.Since(time.Unix(0, killed.Load())); since < delay {
				t.Errorf("the newcomer leads %v after the loss, want at least %v", since, delay)
			}
			if told.Load() == 0 {
				t.Error("the newcomer leads, and the old leader has not been told")
			}
			return nil
		}, quick(jobs.WithStepUpDelay(delay))...)
		if err != nil {
			t.Error(err)
		}
		t.Logf("told after %v", time.Duration(told.Load()-killed.Load()))
		cancel()
		<-over
	})
}

// A leader on a server that becomes read-only steps down, and leads again when it takes writes.
func TestLeadOnAReadOnlyServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start   func(testing.TB) *testbed.Server
		on, off []string
	}{
		"PostgreSQL": {func(t testing.TB) *testbed.Server { return testbed.StartPostgres(t) },
			[]string{"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"},
			[]string{"ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"}},
		"MySQL": {func(t testing.TB) *testbed.Server { return testbed.StartMySQL(t) },
			[]string{"SET GLOBAL read_only = 1"}, []string{"SET GLOBAL read_only = 0"}},
		"MariaDB": {func(t testing.TB) *testbed.Server { return testbed.StartMariaDB(t) },
			[]string{"SET GLOBAL read_only = 1"}, []string{"SET GLOBAL read_only = 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.start(t)
			r := open(t, s)
			out := s.Outside(t)
			exec := func(texts []string) {
				for _, text := range texts {
					if _, err := out.ExecContext(t.Context(), text); err != nil {
						t.Error(err)
					}
				}
			}
			terms := 0
			err := jobs.Lead(t.Context(), r.locker, leader, func(ctx context.Context) error {
				if terms++; terms == 2 {
					return nil
				}
				exec(c.on)
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), jobs.ErrReadOnly) {
					t.Errorf("the cause is %v", context.Cause(ctx))
				}
				exec(c.off)
				return nil
			}, quick(jobs.WithWritable(r.db))...)
			if err != nil || terms != 2 {
				t.Errorf("Lead: %v after %d terms", err, terms)
			}
			s.AwaitFree(t, 5*time.Second)
		})
	}
}
