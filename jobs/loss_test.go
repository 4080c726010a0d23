package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
)

var session = regexp.MustCompile(`(?:USER LEVEL LOCK|ExclusiveLock).* p?id (\d+)`)

// killHolders ends every session that holds a lock, and returns when none does.
func killHolders(t *testing.T, s *testbed.Server) {
	t.Helper()
	text := "KILL %s"
	if isPostgres(s) {
		text = "SELECT pg_terminate_backend(%s)"
	}
	found := session.FindAllStringSubmatch(strings.Join(s.Held(t), "\n"), -1)
	if found == nil {
		t.Error("no session holds a lock")
	}
	for _, m := range found {
		if _, err := s.Outside(t).ExecContext(t.Context(), fmt.Sprintf(text, m[1])); err != nil {
			t.Error(err)
		}
	}
	s.AwaitFree(t, 5*time.Second)
}

func TestLockLostDuringTheRun(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s)
		_, err := r.Do(t.Context(), "j", slot0, func(ctx context.Context, _ *jobs.Run) error {
			killHolders(t, s)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), sqllock.ErrLost) {
				t.Errorf("the cause is %v", context.Cause(ctx))
			}
			return ctx.Err()
		})
		if !errors.Is(err, sqllock.ErrLost) || !errors.Is(err, context.Canceled) {
			t.Errorf("Do: %v", err)
		}
		records, err := r.Runs(t.Context(), "j", 1)
		if err != nil || records[0].Status != jobs.StatusFailed || !strings.Contains(records[0].Error, "the lock was lost") {
			t.Errorf("%+v, %v", records, err)
		}
		if n, err := r.Recover(t.Context(), "j", done); n != 1 || err != nil {
			t.Errorf("Recover: %d, %v", n, err)
		}
	})
}

// A runner that does not heed its context, and ends well, has done the slot; that nothing protected it is said all the same.
func TestLockLostUnheeded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s)
		outcome, err := r.Do(t.Context(), "j", slot0, func(ctx context.Context, _ *jobs.Run) error {
			killHolders(t, s)
			<-ctx.Done()
			return nil
		})
		if outcome != jobs.Ran || !errors.Is(err, sqllock.ErrLost) {
			t.Errorf("Do: %v, %v", outcome, err)
		}
		records, err := r.Runs(t.Context(), "j", 1)
		if err != nil || records[0].Status != jobs.StatusSucceeded || !strings.Contains(records[0].Error, "the lock was lost") {
			t.Errorf("%+v, %v", records, err)
		}
	})
}

// The old runner goes on after another has taken the slot over: the row is the newcomer's, and so is the greater token.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		old, newcomer := open(t, s), open(t, s, jobs.WithHost("newcomer"))
		_, err := old.Do(t.Context(), "j", slot0, func(ctx context.Context, first *jobs.Run) error {
			killHolders(t, s)
			<-ctx.Done()
			newcomer.do(t, "j", slot0, jobs.Ran, func(_ context.Context, second *jobs.Run) error {
				if second.Token <= first.Token || second.Attempt != 2 {
					t.Errorf("the newcomer's run is %+v, after %+v", second, first)
				}
				return nil
			})
			return errors.New("too late")
		})
		if !errors.Is(err, sqllock.ErrLost) {
			t.Errorf("Do: %v", err)
		}
		records, err := newcomer.Runs(t.Context(), "j", 1)
		if err != nil || records[0].Status != jobs.StatusSucceeded || records[0].Host != "newcomer" || records[0].Error != "" {
			t.Errorf("%+v, %v", records, err)
		}
	})
}

// What was seen before the lock is outdated once it is held: a whole run fits between.
func TestOutdatedLook(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		slots := map[string]time.Duration{"the same slot": 0, "another slot": time.Hour}
		for name, later := range slots {
			slow, fast := open(t, s), open(t, s)
			slow.OnStep(func(step string) {
				if step == "lock" {
					fast.do(t, name, slot0.Add(later), jobs.Ran, done)
				}
			})
			want := jobs.AlreadySucceeded
			if later > 0 { // whose token is taken
				want = jobs.Ran
			}
			slow.do(t, name, slot0, want, done)
		}
		takeOverWithAnOutdatedToken(t, open(t, s), open(t, s))
	})
}

func takeOverWithAnOutdatedToken(t *testing.T, slow, fast *replica) {
	t.Helper()
	_, _ = slow.Do(t.Context(), "take-over", slot0, func(context.Context, *jobs.Run) error { return errors.New("no") })
	slow.OnStep(func(step string) {
		if step == "lock" {
			fast.do(t, "take-over", slot0.Add(time.Hour), jobs.Ran, done)
		}
	})
	slow.do(t, "take-over", slot0, jobs.Ran, func(_ context.Context, run *jobs.Run) error {
		if run.Token != 3 {
			t.Errorf("the token is %d, want 3", run.Token)
		}
		return nil
	})
}

// A slot that is taken over leaves its token free, and no later grant gets that one again, for a new slot or one that failed
// before, whatever its looks have seen: before it had the lock, and, as one that has lost it, afterwards.
func TestFreedTokenIsNotGivenAgain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		for _, tries := range []int64{1, 2} {
			for _, step := range []string{"lock", "insert"} {
				slow, fast := open(t, s), open(t, s)
				job := fmt.Sprint(step, tries)
				if tries == 2 {
					_, _ = slow.Do(t.Context(), job, slot0, fails)
				}
				slow.OnStep(func(at string) {
					if at == step {
						slow.OnStep(nil)
						takeTwoTokens(t, s, fast, job, step == "insert")
					}
				})
				slow.do(t, job, slot0, jobs.Ran, func(_ context.Context, run *jobs.Run) error {
					if run.Token != tries+2 {
						t.Errorf("%s: the token is %d, want %d", job, run.Token, tries+2)
					}
					return nil
				})
			}
		}
	})
}

func fails(context.Context, *jobs.Run) error { return errors.New("no") }

// takeTwoTokens runs another slot, which fails, and takes it over, by hand where somebody else has the lock.
func takeTwoTokens(t *testing.T, s *testbed.Server, r *replica, job string, byHand bool) {
	t.Helper()
	if !byHand {
		_, _ = r.Do(t.Context(), job, slot0.Add(time.Hour), fails)
		r.do(t, job, slot0.Add(time.Hour), jobs.Ran, done)
		return
	}
	_, err := s.Outside(t).ExecContext(t.Context(), "INSERT INTO job_runs (job, slot, status, attempt, token, host, started) SELECT '"+job+"', TIMESTAMP '2026-03-29 01:00:00', 'succeeded', 2,"+
		" COALESCE(MAX(token), 0) + 2, 'other', TIMESTAMP '2026-03-29 00:00:00' FROM job_runs WHERE job = '"+job+"'")
	if err != nil {
		t.Fatal(err)
	}
}

// The runner of the last attempt is cut off: the history says so.
func TestCutOffAtTheLastAttempt(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s, jobs.WithAttempts(1))
		r.do(t, "j", slot0, jobs.Ran, done)
		if _, err := s.Outside(t).ExecContext(t.Context(), "UPDATE job_runs SET status = 'running', finished = NULL"); err != nil {
			t.Fatal(err)
		}
		key, err := r.Key(t.Context(), "j")
		if err != nil {
			t.Fatal(err)
		}
		lock, err := r.locker.TryAcquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		r.do(t, "j", slot0, jobs.HeldElsewhere, done)
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
		if n, err := r.Recover(t.Context(), "j", done); n != 0 || err != nil {
			t.Errorf("Recover: %d, %v", n, err)
		}
		r.do(t, "j", slot0, jobs.AttemptsUsedUp, done)
		if got := r.history(t, "j"); !slices.Equal(got, []string{"03-29T00:00:00 failed 1"}) {
			t.Errorf("history: %q", got)
		}
	})
}

// The days on which the clocks change: an hour that does not exist has no slot, one that comes twice has two.
func TestClockChange(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s)
		for name, c := range map[string]struct {
			day   time.Time
			hours int
		}{
			"spring": {time.Date(2026, 3, 29, 0, 0, 0, 0, berlin), 23},
			"autumn": {time.Date(2026, 10, 25, 0, 0, 0, 0, berlin), 25},
		} {
			next := c.day.AddDate(0, 0, 1)
			for range 2 { // the second time all are done
				for slot := c.day; slot.Before(next); slot = slot.Add(time.Hour) {
					if _, err := r.Once(t.Context(), name+" hourly", slot, done); err != nil {
						t.Fatal(err)
					}
				}
				for d := -1; d <= 1; d++ {
					slot := time.Date(c.day.Year(), c.day.Month(), c.day.Day()+d, 1, 0, 0, 0, berlin)
					if _, err := r.Once(t.Context(), name+" daily", slot, done); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := len(r.history(t, name+" hourly")); got != c.hours {
				t.Errorf("%s: %d hourly runs, want %d", name, got, c.hours)
			}
			if got := len(r.history(t, name+" daily")); got != 3 {
				t.Errorf("%s: %d daily runs, want 3", name, got)
			}
		}
	})
}

// The old runner has lost the lock and ends well after the newcomer has looked, and before it takes the slot over.
func TestEndsWhileItIsTakenOver(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		old, newcomer := open(t, s), open(t, s)
		end, ended, inside := make(chan struct{}), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = old.Do(context.Background(), "j", slot0, func(context.Context, *jobs.Run) error {
				close(inside)
				<-end
				return nil
			})
		}()
		<-inside
		killHolders(t, s)
		newcomer.OnStep(func(step string) {
			if step == "insert" {
				close(end)
				<-ended
			}
		})
		newcomer.do(t, "j", slot0, jobs.AlreadySucceeded, done)
	})
}

// Two databases of one server have a job of the same name: they have nothing to do with each other.
func TestDatabasesApart(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		here, there := open(t, s), open(t, s.NewDatabase(t))
		here.do(t, "same name", slot0, jobs.Ran, func(context.Context, *jobs.Run) error {
			there.do(t, "same name", slot0, jobs.Ran, done)
			return nil
		})
	})
}

// A slot that is pruned between Recover's list and its turn does not start anew.
func TestPrunedBeforeItsTurn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s)
		_, _ = r.Do(t.Context(), "j", slot0, func(context.Context, *jobs.Run) error { return errors.New("no") })
		r.OnStep(func(step string) {
			if step == "look" {
				if _, err := s.Outside(t).ExecContext(t.Context(), "DELETE FROM job_runs"); err != nil {
					t.Error(err)
				}
			}
		})
		if n, err := r.Recover(t.Context(), "j", done); n != 0 || err != nil {
			t.Errorf("Recover: %d, %v", n, err)
		}
	})
}
