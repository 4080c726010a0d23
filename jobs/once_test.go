package jobs_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs"
	"github.com/sqllock/sqllock/sqllocktest"
)

func nothing(context.Context, *jobs.Run) error { return nil }

func never(s *site) func(context.Context, *jobs.Run) error {
	return func(_ context.Context, run *jobs.Run) error {
		s.Errorf("it ran: %+v", run)
		return nil
	}
}

// wantSkipped fails unless a slot was not run for this reason.
func (s *site) wantSkipped(ran bool, err error, cause error) {
	s.Helper()
	if ran || !errors.Is(err, jobs.ErrSkipped) || !errors.Is(err, cause) {
		s.Errorf("Once: %v, %v; want false, %v", ran, err, cause)
	}
}

func (s *site) wantRan(ran bool, err error) {
	s.Helper()
	if !ran || err != nil {
		s.Errorf("Once: %v, %v; want true, nil", ran, err)
	}
}

// begin starts a run in the background, and returns when the job runs. end lets it return err.
func (s *site) begin(r *replica, slot time.Time) (ctx context.Context, end func(error) (bool, error)) {
	s.Helper()
	inside, result, done := make(chan context.Context, 1), make(chan error), make(chan struct{})
	var ran bool
	var err error
	go func() {
		defer close(done)
		ran, err = r.Once(s.Context(), s.job, slot, func(ctx context.Context, run *jobs.Run) error {
			inside <- ctx
			return <-result
		})
	}()
	select {
	case ctx = <-inside:
	case <-done:
		s.Fatalf("Once: %v, %v", ran, err)
	}
	return ctx, func(outcome error) (bool, error) {
		result <- outcome
		<-done
		return ran, err
	}
}

func TestOnce(t *testing.T) {
	eachStack(t, func(s *site) {
		a, b := s.replica(), s.replica()
		var seen jobs.Run
		s.wantRan(a.Once(s.ctx(), s.job, midnight, func(ctx context.Context, run *jobs.Run) error {
			seen = *run
			ran, err := b.Once(ctx, s.job, midnight, never(s))
			s.wantSkipped(ran, err, sqllock.ErrHeld)
			var held *sqllock.HeldError
			if !errors.As(err, &held) || held.Key != b.Key(s.job) {
				s.Errorf("no holder: %v", err)
			}
			if r := s.record(b, midnight); r.Status != jobs.Running || !r.Finished.IsZero() {
				s.Errorf("while it runs: %+v", r)
			}
			return nil
		}))
		for _, r := range []*replica{a, b} {
			ran, err := r.Once(s.ctx(), s.job, midnight, never(s))
			s.wantSkipped(ran, err, jobs.ErrSucceeded)
		}
		if seen.Job != s.job || !seen.Slot.Equal(midnight) || seen.Attempt != 1 || seen.Token != 1 {
			s.Errorf("the run: %+v", seen)
		}
		s.wantRan(b.Once(s.ctx(), s.job, midnight.AddDate(0, 0, 1), func(_ context.Context, run *jobs.Run) error {
			if run.Token != 2 {
				s.Errorf("the next token is %d", run.Token)
			}
			return nil
		}))
		r := s.record(a, midnight)
		if r.Status != jobs.Succeeded || r.Host == "" || r.Error != "" || r.Finished.Before(r.Started) || time.Since(r.Started).Abs() > time.Hour {
			s.Errorf("afterwards: %+v", r)
		}
	})
}

// A slot that is due while the previous one runs is skipped, and leaves no row.
func TestSlotDueWhileThePreviousRuns(t *testing.T) {
	eachStack(t, func(s *site) {
		a, b := s.replica(), s.replica()
		_, end := s.begin(a, midnight)
		for _, r := range []*replica{a, b} {
			ran, err := r.Once(s.ctx(), s.job, midnight.Add(time.Hour), never(s))
			s.wantSkipped(ran, err, sqllock.ErrHeld)
			n, err := r.Recover(s.ctx(), s.job, never(s))
			s.wantSkipped(n > 0, err, sqllock.ErrHeld)
		}
		s.wantRan(b.Once(s.ctx(), s.job+" 2", midnight, nothing)) // another job's lock is another one
		s.wantRan(end(nil))
		if r := s.record(b, midnight.Add(time.Hour)); r.Status != "" {
			s.Errorf("the skipped slot has a row: %+v", r)
		}
		if n, err := b.Recover(s.ctx(), s.job, never(s)); n != 0 || err != nil {
			s.Errorf("Recover: %d, %v", n, err)
		}
		s.wantRan(b.Once(s.ctx(), s.job, midnight.Add(time.Hour), nothing)) // asked for again
	})
}

func TestFailureAndRetry(t *testing.T) {
	eachStack(t, func(s *site) {
		mine := errors.New("no paper: \x00 \xff é")
		fails := func(context.Context, *jobs.Run) error { return mine }
		patient, hasty := s.replica(), s.replica(jobs.WithRetryDelay(0))
		if ran, err := patient.Once(s.ctx(), s.job, midnight, fails); !ran || !errors.Is(err, mine) {
			s.Errorf("Once: %v, %v", ran, err)
		}
		if r := s.record(hasty, midnight); r.Status != jobs.Failed || !strings.HasPrefix(r.Error, "no paper: ? ? é") || r.Finished.IsZero() {
			s.Errorf("after the failure: %+v", r)
		}
		ran, err := patient.Once(s.ctx(), s.job, midnight, never(s))
		s.wantSkipped(ran, err, jobs.ErrNotYet)
		if n, err := patient.Recover(s.ctx(), s.job, never(s)); n != 0 || err != nil {
			s.Errorf("Recover before the delay: %d, %v", n, err)
		}
		if ran, err := hasty.Once(s.ctx(), s.job, midnight, fails); !ran || !errors.Is(err, mine) {
			s.Errorf("Once: %v, %v", ran, err)
		}
		n, err := hasty.Recover(s.ctx(), s.job, func(_ context.Context, run *jobs.Run) error {
			if run.Attempt != 3 || run.Token != 3 || !run.Slot.Equal(midnight) {
				s.Errorf("the third attempt: %+v", run)
			}
			return mine
		})
		if n != 0 || !errors.Is(err, mine) {
			s.Errorf("Recover: %d, %v", n, err)
		}
		ran, err = hasty.Once(s.ctx(), s.job, midnight, never(s))
		s.wantSkipped(ran, err, jobs.ErrUsedUp)
		if n, err := hasty.Recover(s.ctx(), s.job, never(s)); n != 0 || err != nil {
			s.Errorf("Recover of what is used up: %d, %v", n, err)
		}
		more := s.replica(jobs.WithAttempts(4), jobs.WithRetryDelay(0))
		s.wantRan(more.Once(s.ctx(), s.job, midnight, nothing))
		if r := s.record(more, midnight); r.Status != jobs.Succeeded || r.Attempt != 4 || !strings.Contains(r.Error, "attempt 3 on ") {
			s.Errorf("at last: %+v", r)
		}
	})
}

func TestLockLostDuringTheRun(t *testing.T) {
	eachOf(t, []stack{onPgx, onMySQL, onMariaDB}, func(s *site) {
		for name, outcome := range map[string]error{"nil": nil, "an error": errors.New("cannot go on")} {
			slot := midnight.Add(time.Duration(len(name)) * time.Hour)
			a := s.unwatched()
			ctx, end := s.begin(a, slot)
			s.kill(a)
			select {
			case <-ctx.Done():
			case <-time.After(patience):
				s.Fatal("the job is not told")
			}
			if cause := context.Cause(ctx); !errors.Is(cause, sqllock.ErrLost) {
				s.Errorf("the cause: %v", cause)
			}
			if ran, err := end(outcome); !ran || !errors.Is(err, sqllock.ErrLost) || outcome != nil && !errors.Is(err, outcome) {
				s.Errorf("it returned %s: %v, %v", name, ran, err)
			}
			if r := s.record(a, slot); r.Status != jobs.Failed || !strings.Contains(r.Error, "the lock is lost") {
				s.Errorf("it returned %s: %+v", name, r)
			}
		}
	})
}

// The row of a run that was superseded is not its own any more.
func TestTakeOverWhileTheOldRunnerLives(t *testing.T) {
	eachOf(t, []stack{onPgx, onMySQL, onMariaDB}, func(s *site) {
		a, b := s.unwatched(), s.replica()
		ctx, end := s.begin(a, midnight)
		s.kill(a)
		<-ctx.Done()
		s.wantRan(b.Once(s.ctx(), s.job, midnight, func(_ context.Context, run *jobs.Run) error {
			if run.Attempt != 2 || run.Token != 2 {
				s.Errorf("the take-over: %+v", run)
			}
			if ran, err := end(nil); !ran || !errors.Is(err, sqllock.ErrLost) {
				s.Errorf("the old runner: %v, %v", ran, err)
			}
			if r := s.record(b, midnight); r.Status != jobs.Running || !strings.Contains(r.Error, "attempt 1 on ") {
				s.Errorf("while the new one runs: %+v", r)
			}
			return nil
		}))
		if r := s.record(b, midnight); r.Status != jobs.Succeeded || r.Attempt != 2 {
			s.Errorf("afterwards: %+v", r)
		}
	})
}

// unwatched is a replica whose pool may report that its session died.
func (s *site) unwatched(opts ...jobs.LedgerOption) *replica {
	s.Helper()
	r := s.replica(opts...)
	r.db = s.at.Outside(s.T) // a plain pool
	r.locker = s.locker(r.db)
	locker := r.locker
	s.Cleanup(func() { s.must(locker.Close()) })
	r.Ledger = jobs.NewLedger(r.db, r.locker, opts...)
	return r
}

func TestPanic(t *testing.T) {
	eachOf(t, []stack{onPgx, onMySQL}, func(s *site) {
		a := s.replica(jobs.WithRetryDelay(0))
		func() {
			defer func() {
				if v := recover(); v != "boom" {
					s.Errorf("recovered %v", v)
				}
			}()
			a.Once(s.ctx(), s.job, midnight, func(context.Context, *jobs.Run) error { panic("boom") })
		}()
		if r := s.record(a, midnight); r.Status != jobs.Failed || !strings.Contains(r.Error, "panicked") {
			s.Errorf("%+v", r)
		}
		s.wantRan(s.replica(jobs.WithRetryDelay(0)).Once(s.ctx(), s.job, midnight, nothing))
	})
}

// The outcome is written although the caller's context has ended, and so is the release done.
func TestCallerGoesAway(t *testing.T) {
	eachStack(t, func(s *site) {
		a := s.replica()
		ctx, cancel := context.WithCancel(s.Context())
		s.wantRan(a.Once(ctx, s.job, midnight, func(context.Context, *jobs.Run) error {
			cancel()
			return nil
		}))
		if r := s.record(a, midnight); r.Status != jobs.Succeeded {
			s.Errorf("%+v", r)
		}
		if ran, err := a.Once(ctx, s.job, midnight.Add(time.Hour), never(s)); ran || !errors.Is(err, context.Canceled) || errors.Is(err, jobs.ErrSkipped) {
			s.Errorf("Once with a dead context: %v, %v", ran, err)
		}
		s.wantRan(s.replica().Once(s.ctx(), s.job, midnight.Add(time.Hour), nothing))
	})
}

// Whatever the sessions' isolation level is, replicas that come at once agree.
func TestCrowd(t *testing.T) {
	eachStack(t, func(s *site) {
		s.replica() // the table
		levels := []string{"", "?default_transaction_isolation=serializable", "?default_transaction_isolation=repeatable%20read"}
		if !s.postgres() {
			levels = []string{"", "?transaction_isolation='SERIALIZABLE'", "?transaction_isolation='READ-COMMITTED'"}
			if s.is(onMariaDB) {
				levels = []string{"", "?tx_isolation='SERIALIZABLE'", "?tx_isolation='READ-COMMITTED'"}
			}
		}
		var mu sync.Mutex
		runs, tokens := map[time.Time]int{}, map[int64]bool{}
		var all sync.WaitGroup
		for _, level := range levels {
			r := s.replicaWith(level)
			for range 3 {
				all.Go(func() {
					for h := range 10 {
						slot := midnight.Add(time.Duration(h) * time.Hour)
						_, err := r.Once(s.ctx(), s.job, slot, func(_ context.Context, run *jobs.Run) error {
							mu.Lock()
							defer mu.Unlock()
							runs[slot]++
							if tokens[run.Token] {
								s.Errorf("token %d twice", run.Token)
							}
							tokens[run.Token] = true
							return nil
						})
						if err != nil && !errors.Is(err, jobs.ErrSkipped) {
							s.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		for slot, n := range runs {
			if n != 1 {
				s.Errorf("%v ran %d times", slot, n)
			}
		}
		if n := s.count("SELECT COUNT(*) FROM job_runs WHERE status = 'succeeded' AND attempt = 1"); n != len(runs) {
			s.Errorf("%d rows for %d runs", n, len(runs))
		}
	})
}

func (s *site) replicaWith(params string) *replica {
	s.Helper()
	dsn, given, _ := strings.Cut(s.at.DSN(), "?")
	if given != "" && params != "" {
		given = "&" + given
	}
	dsn += "?" + strings.TrimPrefix(params, "?") + given
	db := sqllocktest.Open(s.T, s.driver, dsn)
	r := &replica{db: db, locker: s.locker(db)}
	s.Cleanup(func() { s.must(r.locker.Close()) })
	r.Ledger = jobs.NewLedger(db, r.locker)
	return r
}
