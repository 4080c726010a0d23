package jobs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
)

func TestOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		a, b := open(t, s), open(t, s)
		ran, err := a.Once(t.Context(), "settle", slot0, func(ctx context.Context, run *jobs.Run) error {
			if run.Job != "settle" || !run.Slot.Equal(slot0) || run.Attempt != 1 || run.Token != 1 {
				t.Errorf("the run is %+v", run)
			}
			b.do(t, "settle", slot0, jobs.HeldElsewhere, done)
			b.do(t, "settle", slot0.Add(time.Hour), jobs.HeldElsewhere, done) // another slot of the job
			b.do(t, "other", slot0, jobs.Ran, done)
			return nil
		})
		if !ran || err != nil {
			t.Fatalf("Once: %v, %v", ran, err)
		}
		b.do(t, "settle", slot0, jobs.AlreadySucceeded, done)
		b.do(t, "settle", slot0.In(time.FixedZone("", 3600)), jobs.AlreadySucceeded, done)
		b.do(t, "settle", slot0.Add(time.Microsecond), jobs.Ran, done)
		want := []string{"03-29T00:00:00 succeeded 1", "03-29T00:00:00 succeeded 1"}
		if got := b.history(t, "settle"); !slices.Equal(got, want) {
			t.Errorf("history: %q", got)
		}
	})
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s, jobs.WithAttempts(2), jobs.WithHost("here"))
		fails := errors.New("the printer\x00 burns")
		for token := int64(1); token <= 2; token++ {
			outcome, err := r.Do(t.Context(), "j", slot0, func(_ context.Context, run *jobs.Run) error {
				if run.Token != token || run.Attempt != int(token) {
					t.Errorf("the run is %+v, want token and attempt %d", run, token)
				}
				return fails
			})
			if outcome != jobs.Ran || !errors.Is(err, fails) {
				t.Errorf("Do: %v, %v", outcome, err)
			}
		}
		r.do(t, "j", slot0, jobs.AttemptsUsedUp, done)
		records, err := r.Runs(t.Context(), "j", 9)
		if err != nil || len(records) != 1 {
			t.Fatal(records, err)
		}
		one := records[0]
		if one.Status != jobs.StatusFailed || one.Error != "the printer burns" || one.Host != "here" || one.Token != 2 ||
			one.Started.IsZero() || one.Finished.Before(one.Started) || time.Since(one.Finished).Abs() > time.Hour {
			t.Errorf("%+v", one)
		}
		if n, err := r.Recover(t.Context(), "j", done); n != 0 || err != nil {
			t.Errorf("Recover: %d, %v", n, err)
		}
	})
}

func TestPanicIsNotedAndPassed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s)
		func() {
			defer func() {
				if p := recover(); p != "boo" {
					t.Errorf("recovered %v", p)
				}
			}()
			_, _ = r.Do(t.Context(), "j", slot0, func(context.Context, *jobs.Run) error { panic("boo") })
		}()
		if records, err := r.Runs(t.Context(), "j", 1); err != nil || records[0].Error != "panic: boo" {
			t.Errorf("%+v, %v", records, err)
		}
		r.do(t, "j", slot0, jobs.Ran, done)
	})
}

func TestRecover(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s)
		fail := errors.New("not yet")
		for i := range 3 {
			_, _ = r.Do(t.Context(), "j", slot0.Add(time.Duration(i)*time.Hour), func(context.Context, *jobs.Run) error { return fail })
		}
		var slots []string
		n, err := r.Recover(t.Context(), "j", func(_ context.Context, run *jobs.Run) error {
			slots = append(slots, run.Slot.Format("15:04"))
			if run.Slot.Hour() == 1 {
				return fail
			}
			return nil
		})
		if n != 3 || !errors.Is(err, fail) || !slices.Equal(slots, []string{"00:00", "01:00", "02:00"}) {
			t.Errorf("Recover: %d, %v, of %v", n, err, slots)
		}
		want := []string{"03-29T00:00:00 succeeded 2", "03-29T01:00:00 failed 2", "03-29T02:00:00 succeeded 2"}
		if got := r.history(t, "j"); !slices.Equal(got, want) {
			t.Errorf("history: %q", got)
		}
	})
}

func TestPrune(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s)
		for i := range 3 {
			r.do(t, "j", slot0.Add(time.Duration(i)*time.Hour), jobs.Ran, done)
		}
		if n, err := r.Prune(t.Context(), time.Hour); n != 0 || err != nil {
			t.Errorf("Prune of nothing: %d, %v", n, err)
		}
		if n, err := r.Prune(t.Context(), 0); n != 2 || err != nil {
			t.Errorf("Prune: %d, %v", n, err)
		}
		r.do(t, "j", slot0.Add(9*time.Hour), jobs.Ran, func(_ context.Context, run *jobs.Run) error {
			if run.Token != 4 {
				t.Errorf("the token after a prune is %d, want 4", run.Token)
			}
			return nil
		})
	})
}

func TestTableName(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		for _, name := range []string{`odd"na` + "`" + `me; -- ?`, "Select"} {
			r := open(t, s, jobs.WithTable(name))
			r.do(t, "j", slot0, jobs.Ran, done)
			again := open(t, s, jobs.WithTable(name))
			again.do(t, "j", slot0, jobs.AlreadySucceeded, done)
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	r := open(t, testbed.Postgres(t).NewDatabase(t))
	for name, l := range map[string]*jobs.Ledger{
		"WithTable":    jobs.NewLedger(r.db, r.locker, jobs.WithTable("a.b.c")),
		"WithAttempts": jobs.NewLedger(r.db, r.locker, jobs.WithAttempts(0)),
		"nil":          jobs.NewLedger(nil, nil),
		"Create":       jobs.NewLedger(r.db, r.locker, jobs.WithTable("nowhere")),
		"unsupported":  jobs.NewLedger(r.db, r.locker, jobs.WithTable("pg_catalog.pg_class")),
	} {
		if ran, err := l.Once(t.Context(), "j", slot0, done); ran || err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, ran, err)
		}
	}
	for _, job := range []string{"", " x", "x\x00", "\xff", strings.Repeat("ä", 101)} {
		if ran, err := r.Once(t.Context(), job, slot0, done); ran || err == nil {
			t.Errorf("job %q: %v, %v", job, ran, err)
		}
	}
	if ran, err := r.Once(t.Context(), "j", time.Time{}, done); ran || err == nil {
		t.Errorf("zero slot: %v, %v", ran, err)
	}
}

// The article's table, with a row of a program that knows no more than it says.
func TestAdopt(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		out := s.Outside(t)
		for _, text := range []string{
			"CREATE TABLE job_runs (job_name VARCHAR(100) NOT NULL, run_date DATE NOT NULL, PRIMARY KEY (job_name, run_date))",
			"INSERT INTO job_runs (job_name, run_date) VALUES ('settle', '2026-03-28')",
		} {
			if _, err := out.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		berlin, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		day := func(d int) time.Time { return time.Date(2026, 3, d, 1, 0, 0, 0, berlin) }
		r, err := newReplica(s.DSN(), isPostgres(s)) // without Create
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		for i, want := range []bool{false, true, false} {
			if got, err := r.Claim(t.Context(), "settle", day(max(28, 27+i))); i == 0 && (got != want || err != nil) {
				t.Errorf("Claim: %v, %v", got, err)
			}
		}
		if _, err := r.Once(t.Context(), "settle", day(30), done); !errors.Is(err, sqllock.ErrUnsupported) {
			t.Errorf("Once before Create: %v", err)
		}
		r = open(t, s)
		r.do(t, "settle", day(28), jobs.AlreadySucceeded, done)
		r.do(t, "settle", day(29), jobs.AlreadySucceeded, done) // claimed above
		// 29 and 30 March 01:00 in Berlin fall on one UTC date.
		_, err = r.Do(t.Context(), "settle", day(30), func(context.Context, *jobs.Run) error { return errors.New("no") })
		if err == nil {
			t.Error("no error")
		}
		if n, err := r.Recover(t.Context(), "settle", done); n != 1 || err != nil { // finds the row by its date in Berlin
			t.Errorf("Recover: %d, %v", n, err)
		}
		if _, err := r.Do(t.Context(), "settle", day(30).Add(time.Hour), done); !errors.Is(err, sqllock.ErrUnsupported) {
			t.Errorf("a second slot on one day: %v", err)
		}
		if _, err := out.ExecContext(t.Context(), "INSERT INTO job_runs (job_name, run_date) VALUES ('settle', '2026-03-31')"); err != nil {
			t.Errorf("the article's own statement: %v", err)
		}
		r.do(t, "settle", day(31), jobs.AlreadySucceeded, done)
		want := []string{"03-28T00:00:00 claimed 0", "03-29T00:00:00 claimed 0", "03-29T23:00:00 succeeded 2", "03-31T00:00:00 claimed 0"}
		if got := r.history(t, "settle"); !slices.Equal(got, want) {
			t.Errorf("history: %q", got)
		}
	})
}
