package gocronlock_test

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
	"github.com/sqllock/sqllock/jobs/schedulers/gocronlock"
	_ "github.com/sqllock/sqllock/pgxlock"
	"github.com/sqllock/sqllock/sqllocktest"
)

func TestMain(m *testing.M) { testbed.Main(m) }

func open(t *testing.T, s *testbed.Server) *sqllock.Postgres {
	t.Helper()
	db, err := sql.Open("pgx-sqllock", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	locker := sqllock.NewPostgres(db)
	t.Cleanup(func() {
		_ = locker.Close()
		_ = db.Close()
	})
	return locker
}

// scheduler starts a scheduler with one job, which runs every 20 ms.
func scheduler(t *testing.T, job func(context.Context), opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.NewJob(gocron.DurationJob(20*time.Millisecond), gocron.NewTask(job), gocron.WithName("tick")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	return s
}

func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("still not: " + what)
		}
	}
}

// Only the leader's jobs run; when it gives up, another's do.
func TestElector(t *testing.T) {
	t.Parallel()
	s := testbed.Postgres(t).NewDatabase(t)
	var ran [2]atomic.Int64
	var electors [2]*gocronlock.Elector
	for i := range electors {
		e := gocronlock.NewElector(t.Context(), open(t, s), sqllock.Name("scheduler"),
			jobs.WithCampaign(20*time.Millisecond), jobs.WithStepUpDelay(0), jobs.WithLeadReport(func(error) {}))
		electors[i] = e
		if i == 0 {
			await(t, "elected", func() bool { return e.IsLeader(t.Context()) == nil })
		}
		sched := scheduler(t, func(context.Context) { ran[i].Add(1) }, gocron.WithDistributedElector(e))
		defer sched.Shutdown()
		defer e.Close()
	}
	await(t, "run by the leader", func() bool { return ran[0].Load() > 5 })
	if n := ran[1].Load(); n != 0 {
		t.Errorf("the other ran %d jobs", n)
	}
	electors[0].Close()
	if err := electors[0].IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.Is(err, context.Canceled) {
		t.Errorf("after Close: %v", err)
	}
	await(t, "run by the other", func() bool { return ran[1].Load() > 5 })
	electors[1].Close()
	s.AwaitFree(t, 5*time.Second)
}

// A job does not run in two schedulers at the same time, and Shutdown, which cancels its context, leaves nothing held.
func TestLocker(t *testing.T) {
	t.Parallel()
	s := testbed.Postgres(t).NewDatabase(t)
	var inside, runs atomic.Int64
	job := func(ctx context.Context) {
		if inside.Add(1) != 1 {
			t.Error("two run at once")
		}
		defer inside.Add(-1)
		runs.Add(1)
		select {
		case <-time.After(15 * time.Millisecond): // it works
		case <-ctx.Done():
		}
	}
	var schedulers []gocron.Scheduler
	for range 3 {
		schedulers = append(schedulers, scheduler(t, job, gocron.WithDistributedLocker(gocronlock.NewLocker(open(t, s)))))
	}
	await(t, "run ten times", func() bool { return runs.Load() >= 10 })
	for _, one := range schedulers {
		if err := one.Shutdown(); err != nil {
			t.Error(err)
		}
	}
	s.AwaitFree(t, 5*time.Second)
}

func TestUnlockAfterShutdown(t *testing.T) {
	t.Parallel()
	m := sqllocktest.NewMemory()
	l := gocronlock.NewLocker(m)
	lock, err := l.Lock(t.Context(), "tick")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Lock(t.Context(), "tick"); !errors.Is(err, sqllock.ErrHeld) {
		t.Errorf("a second Lock: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lock.Unlock(over); err != nil || len(m.Held()) != 0 {
		t.Errorf("Unlock: %v; held: %v", err, m.Held())
	}
}
