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
)

// article is the two-column table as many programs have it.
const article = "CREATE TABLE job_runs (job_name VARCHAR(100) NOT NULL, run_date DATE NOT NULL, PRIMARY KEY (job_name, run_date))"

func berlin(t testing.TB) *time.Location {
	t.Helper()
	l, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCreateAtOnce(t *testing.T) {
	eachStack(t, func(s *site) {
		var all sync.WaitGroup
		for range 4 {
			r := s.newReplica(s.at)
			all.Go(func() {
				for range 2 {
					if err := r.Create(s.ctx()); err != nil {
						s.Error(err)
					}
				}
			})
		}
		all.Wait()
		if again, err := s.newReplica(s.at).Schema(s.ctx()); len(again) != 0 || err != nil {
			s.Errorf("Schema of a table that is as it should be: %q, %v", again, err)
		}
	})
}

func TestNoTable(t *testing.T) {
	eachOf(t, []stack{onPgx, onMySQL}, func(s *site) {
		r := s.newReplica(s.at)
		ran, err := r.Once(s.ctx(), s.job, midnight, never(s))
		if ran || err == nil || errors.Is(err, jobs.ErrSkipped) || !strings.Contains(err.Error(), "Ledger.Create") {
			s.Errorf("Once: %v, %v", ran, err)
		}
		s.exec("CREATE TABLE job_runs (id INTEGER)")
		if err := r.Create(s.ctx()); !errors.Is(err, jobs.ErrTable) {
			s.Errorf("Create beside another table: %v", err)
		}
		s.must(jobs.NewLedger(r.db, r.locker, jobs.WithTable("other")).Create(s.ctx()))
	})
}

// A name is quoted, whatever is in it.
func TestTableName(t *testing.T) {
	eachOf(t, []stack{onPgx, onMySQL, onMariaDB}, func(s *site) {
		r := s.replica(jobs.WithTable("a \"b\" `c`; DROP TABLE x -- $1 é"))
		s.wantRan(r.Once(s.ctx(), s.job, midnight, nothing))
		if claimed, err := r.Claim(s.ctx(), s.job, midnight.Add(time.Hour)); !claimed || err != nil {
			s.Errorf("Claim: %v, %v", claimed, err)
		}
		if _, err := r.Prune(s.ctx(), s.job, 0); err != nil {
			s.Error(err)
		}
		qualified := "public.job_runs"
		if !s.postgres() {
			qualified = databaseOf(s.at) + ".job_runs"
		}
		q := s.replica(jobs.WithTable(qualified))
		s.wantRan(q.Once(s.ctx(), s.job, midnight, nothing))
		if q.Key("x") != s.newReplica(s.at).Key("x") {
			s.Error("a schema's name changes the key")
		}
	})
}

func TestBadArguments(t *testing.T) {
	s := newSite(t, onPgx, onPgx.server(t).NewDatabase(t))
	for _, o := range []jobs.LedgerOption{
		jobs.WithTable(""), jobs.WithTable("a.b.c"), jobs.WithTable("a."), jobs.WithTable("a\x00"),
		jobs.WithAttempts(0), jobs.WithRetryDelay(-1), jobs.WithLocation(nil),
	} {
		r := s.newReplica(s.at, o)
		_, err1 := r.Once(s.ctx(), s.job, midnight, never(s))
		_, err2 := r.Runs(s.ctx(), "", 1)
		if err3 := r.Create(s.ctx()); err1 == nil || err2 == nil || err3 == nil {
			s.Errorf("an impossible option: %v, %v, %v", err1, err2, err3)
		}
	}
	r := s.replica(nil)
	for _, job := range []string{"", " a", "a ", "a\n", "\xff", strings.Repeat("é", 101)} {
		if _, err := r.Once(s.ctx(), job, midnight, never(s)); err == nil {
			s.Errorf("the name %q is accepted", job)
		}
	}
	s.wantRan(r.Once(s.ctx(), strings.Repeat("é", 100), midnight, nothing))
	for _, slot := range []time.Time{{}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if _, err := r.Once(s.ctx(), s.job, slot, never(s)); err == nil {
			s.Errorf("the slot %v is accepted", slot)
		}
	}
	if _, err := jobs.NewLedger(nil, r.locker).Once(s.ctx(), s.job, midnight, never(s)); err == nil {
		s.Error("without a pool")
	}
	if _, err := jobs.NewLedger(r.db, sqllock.NewMySQL(r.db)).Once(s.ctx(), s.job, midnight, never(s)); !errors.Is(err, sqllock.ErrUnsupported) {
		s.Errorf("MySQL's locker on PostgreSQL: %v", err)
	}
}

// No setting of a driver or a session shifts a slot, and microseconds count.
func TestSlotIsAnInstant(t *testing.T) {
	eachStack(t, func(s *site) {
		r := s.replica()
		params := []string{"", "?timezone=Asia%2FTokyo"}
		if !s.postgres() {
			params = []string{"", "?loc=Asia%2FTokyo&parseTime=true&time_zone='%2B09:00'", "?interpolateParams=true&parseTime=true&loc=America%2FNew_York"}
		}
		precise := time.Date(2026, 7, 1, 23, 59, 59, 600_000_400, berlin(s))
		for i, p := range params {
			other := s.replicaWith(p)
			for _, slot := range []time.Time{precise, precise.Add(time.Microsecond), midnight} {
				ran, err := other.Once(s.ctx(), s.job, slot.In(berlin(s)), nothing)
				if i > 0 {
					s.wantSkipped(ran, err, jobs.ErrSucceeded)
				} else {
					s.wantRan(ran, err)
				}
			}
			got, err := other.Runs(s.ctx(), s.job, 2)
			s.must(err)
			if len(got) != 2 || !got[0].Slot.Equal(midnight) || !got[1].Slot.Equal(precise.Truncate(time.Microsecond).Add(time.Microsecond)) {
				s.Errorf("%s: the latest two: %+v", p, got)
			}
			if d := time.Since(got[0].Finished); d.Abs() > time.Hour {
				s.Errorf("%s: it finished %v ago", p, d)
			}
		}
		if n := s.count("SELECT COUNT(*) FROM job_runs"); n != 3 {
			s.Errorf("%d rows", n)
		}
		_ = r
	})
}

// The two-column table, as it is: claims only.
func TestBareTable(t *testing.T) {
	eachStack(t, func(s *site) {
		s.exec(article)
		a, b := s.newReplica(s.at), s.newReplica(s.at)
		slot := time.Date(2026, 12, 2, 0, 0, 0, 0, berlin(s)) // 23:00 of the day before, in UTC
		for i, r := range []*replica{a, b, a} {
			if claimed, err := r.Claim(s.ctx(), s.job, slot); claimed != (i == 0) || err != nil {
				s.Errorf("claim %d: %v, %v", i, claimed, err)
			}
		}
		if _, err := a.Claim(s.ctx(), s.job, slot.Add(time.Hour)); !errors.Is(err, jobs.ErrTable) {
			s.Errorf("a second slot on one date: %v", err)
		}
		s.exec("INSERT INTO job_runs (job_name, run_date) VALUES ('" + s.job + "', '2026-12-03')") // the old program
		if claimed, err := b.Claim(s.ctx(), s.job, slot.AddDate(0, 0, 1)); claimed || err != nil {
			s.Errorf("beside the old program: %v, %v", claimed, err)
		}
		if n := s.count("SELECT COUNT(*) FROM job_runs WHERE run_date = '2026-12-02'"); n != 1 {
			s.Errorf("%d rows with the slot's own date", n)
		}
		_, err1 := a.Once(s.ctx(), s.job, slot, never(s))
		_, err2 := a.Runs(s.ctx(), s.job, 1)
		_, err3 := a.Prune(s.ctx(), s.job, 0)
		if !errors.Is(err1, jobs.ErrTable) || !errors.Is(err2, jobs.ErrTable) || !errors.Is(err3, jobs.ErrTable) {
			s.Errorf("what needs more columns: %v, %v, %v", err1, err2, err3)
		}
	})
}

// The two-column table, adopted: programs that know no other columns go on beside those that do.
func TestAdoptedTable(t *testing.T) {
	eachStack(t, func(s *site) {
		s.exec(article)
		old := func(date string) string {
			return "INSERT INTO job_runs (job_name, run_date) VALUES ('" + s.job + "', '" + date + "')"
		}
		s.exec(old("2026-11-30"))
		early := s.newReplica(s.at) // it has seen the table as it was
		if claimed, err := early.Claim(s.ctx(), s.job, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)); claimed || err != nil {
			s.Errorf("Claim: %v, %v", claimed, err)
		}
		a, b := s.replica(jobs.WithLocation(berlin(s)), jobs.WithRetryDelay(0)), s.replica()
		slot := time.Date(2026, 12, 2, 1, 0, 0, 0, berlin(s))
		s.exec(old("2026-12-01"))
		for _, taken := range []time.Time{slot.AddDate(0, 0, -2), slot.AddDate(0, 0, -1)} {
			ran, err := a.Once(s.ctx(), s.job, taken, never(s))
			s.wantSkipped(ran, err, jobs.ErrSucceeded)
		}
		mine := errors.New("mine")
		if ran, err := a.Once(s.ctx(), s.job, slot, func(context.Context, *jobs.Run) error { return mine }); !ran || !errors.Is(err, mine) {
			s.Errorf("Once: %v, %v", ran, err)
		}
		if _, err := s.outside.ExecContext(s.ctx(), old("2026-12-02")); err == nil {
			s.Error("the old program can take a slot that has run")
		}
		n, err := a.Recover(s.ctx(), s.job, func(_ context.Context, run *jobs.Run) error {
			if !run.Slot.Equal(slot) || run.Attempt != 2 || run.Token != 2 {
				s.Errorf("the slot that was left behind: %+v", run)
			}
			return nil
		})
		if n != 1 || err != nil {
			s.Errorf("Recover: %d, %v", n, err)
		}
		for _, r := range []*replica{a, b, early} {
			ran, err := r.Once(s.ctx(), s.job, slot, never(s))
			s.wantSkipped(ran, err, jobs.ErrSucceeded)
			if ran, err := r.Once(s.ctx(), s.job, slot.Add(time.Hour), never(s)); ran || !errors.Is(err, jobs.ErrTable) {
				s.Errorf("a second slot on one date: %v, %v", ran, err)
			}
		}
		if claimed, err := early.Claim(s.ctx(), s.job, slot.AddDate(0, 0, 1)); !claimed || err != nil {
			s.Errorf("Claim: %v, %v", claimed, err)
		}
		all, err := a.Runs(s.ctx(), s.job, 10)
		s.must(err)
		var got []string
		for _, r := range all {
			got = append(got, r.Slot.Format("01-02 15:04 ")+r.Status)
		}
		if want := "12-03 01:00 claimed,12-02 01:00 succeeded,12-01 00:00 claimed,11-30 00:00 claimed"; strings.Join(got, ",") != want {
			s.Errorf("history: %q", got)
		}
	})
}

func TestRunsAndPrune(t *testing.T) {
	eachStack(t, func(s *site) {
		a := s.replica(jobs.WithRetryDelay(0))
		day := func(n int) time.Time { return time.Now().Truncate(24*time.Hour).AddDate(0, 0, n) }
		fail := func(context.Context, *jobs.Run) error { return errors.New("x") }
		s.wantRan(a.Once(s.ctx(), s.job, day(-9), nothing))
		s.wantRan(a.Once(s.ctx(), s.job, day(-8), nothing))
		if ran, _ := a.Once(s.ctx(), s.job, day(-7), fail); !ran {
			s.Error("it did not run")
		}
		s.wantRan(a.Once(s.ctx(), s.job+"2", day(-9), nothing))
		if all, err := a.Runs(s.ctx(), "", 10); len(all) != 4 || err != nil {
			s.Errorf("all: %+v, %v", all, err)
		}
		if latest, err := a.Runs(s.ctx(), s.job, 1); len(latest) != 1 || latest[0].Token != 3 || err != nil {
			s.Errorf("the latest: %+v, %v", latest, err)
		}
		if n, err := a.Prune(s.ctx(), s.job, time.Since(day(-8))+time.Hour); n != 1 || err != nil {
			s.Errorf("Prune: %d, %v", n, err)
		}
		_, end := s.begin(a, day(-10))
		if n, err := s.replica().Prune(s.ctx(), s.job, 0); n != 2 || err != nil {
			s.Errorf("Prune beside a run: %d, %v", n, err)
		}
		s.wantRan(end(nil))
		if n, err := a.Prune(s.ctx(), s.job, 0); n != 0 || err != nil {
			s.Errorf("Prune of the row with the latest token: %d, %v", n, err)
		}
		s.wantRan(a.Once(s.ctx(), s.job, day(0), func(_ context.Context, run *jobs.Run) error {
			if run.Token != 5 {
				s.Errorf("the token after Prune is %d", run.Token)
			}
			return nil
		}))
		if _, err := a.Prune(s.ctx(), s.job, -1); err == nil {
			s.Error("Prune with a negative time")
		}
	})
}
