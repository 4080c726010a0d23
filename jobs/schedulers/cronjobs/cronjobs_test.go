package cronjobs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
	"github.com/sqllock/sqllock/jobs/schedulers/cronjobs"
	_ "github.com/sqllock/sqllock/pgxlock"
)

func TestMain(m *testing.M) { testbed.Main(m) }

func open(t *testing.T, s *testbed.Server) *jobs.Ledger {
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
	l := jobs.NewLedger(db, locker)
	if err := l.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// tally counts what became of the ticks.
type tally struct {
	sync.Mutex
	ran   map[time.Time]int
	ticks map[time.Time]int
	errs  []error
}

func (y *tally) report(slot time.Time, outcome jobs.Outcome, err error) {
	y.Lock()
	defer y.Unlock()
	y.ticks[slot.UTC()]++
	if outcome == jobs.Ran {
		y.ran[slot.UTC()]++
	}
	if err != nil {
		y.errs = append(y.errs, err)
	}
}

// full are the slots of which all replicas have told.
func (y *tally) full(replicas int) (n int) {
	y.Lock()
	defer y.Unlock()
	for _, ticks := range y.ticks {
		if ticks == replicas {
			n++
		}
	}
	return n
}

// Three real schedulers fire every second: each slot runs once, and is the second that the schedule says.
func TestThreeSchedulers(t *testing.T) {
	t.Parallel()
	s := testbed.Postgres(t).NewDatabase(t)
	y := &tally{ran: map[time.Time]int{}, ticks: map[time.Time]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var crons []*cron.Cron
	for range 3 {
		c := cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC))
		if _, err := cronjobs.Add(ctx, c, open(t, s), "* * * * * *", "tick", func(context.Context, *jobs.Run) error { return nil }, y.report); err != nil {
			t.Fatal(err)
		}
		crons = append(crons, c)
		c.Start()
	}
	for end := time.Now().Add(20 * time.Second); y.full(3) < 3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("ticks: %v", y.ticks)
		}
	}
	for _, c := range crons {
		<-c.Stop().Done()
	}
	for slot, ticks := range y.ticks {
		if slot.Nanosecond() != 0 || y.ran[slot] > 1 || ticks == 3 && y.ran[slot] != 1 {
			t.Errorf("slot %v: %d ticks, run %d times", slot, ticks, y.ran[slot])
		}
	}
	if len(y.errs) > 0 {
		t.Error(y.errs)
	}
	s.AwaitFree(t, 5*time.Second)
}

// What failed is run again at the next tick, before that one's own slot.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	s := testbed.Postgres(t).NewDatabase(t)
	c := cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC))
	runs := make(chan string, 100)
	first := time.Time{}
	_, err := cronjobs.Add(t.Context(), c, open(t, s), "* * * * * *", "tick", func(_ context.Context, run *jobs.Run) error {
		if first.IsZero() {
			first = run.Slot
		}
		runs <- fmt.Sprintf("%v %d", run.Slot.Sub(first), run.Attempt)
		if run.Slot.Equal(first) && run.Attempt == 1 {
			return errors.New("not yet")
		}
		return nil
	}, func(time.Time, jobs.Outcome, error) {})
	if err != nil {
		t.Fatal(err)
	}
	c.Start()
	for _, want := range []string{"0s 1", "0s 2", "1s 1"} {
		if got := <-runs; got != want {
			t.Errorf("run %s, want %s", got, want)
		}
	}
	<-c.Stop().Done()
	s.AwaitFree(t, 5*time.Second)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	c := cron.New()
	l := jobs.NewLedger(nil, nil)
	if _, err := cronjobs.Add(t.Context(), c, l, "@every 5m", "j", nil, nil); !errors.Is(err, sqllock.ErrUnsupported) {
		t.Errorf("@every: %v", err)
	}
	if _, err := cronjobs.Add(t.Context(), c, l, "when the cock crows", "j", nil, nil); err == nil {
		t.Error("nonsense is taken")
	}
	if len(c.Entries()) != 0 {
		t.Error("a refused entry was left behind")
	}
}

// The documented rule for the days on which the clocks change.
func TestClockChange(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec string
		day  time.Time
		want int
	}{
		{"0 1 * * *", time.Date(2026, 3, 29, 0, 0, 0, 0, berlin), 1},
		{"0 * * * *", time.Date(2026, 3, 29, 0, 0, 0, 0, berlin), 23},
		{"30 2 * * *", time.Date(2026, 3, 29, 0, 0, 0, 0, berlin), 0}, // does not exist
		{"0 1 * * *", time.Date(2026, 10, 25, 0, 0, 0, 0, berlin), 1},
		{"0 * * * *", time.Date(2026, 10, 25, 0, 0, 0, 0, berlin), 25},
	} {
		schedule, err := cron.ParseStandard(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		slots := map[int64]bool{}
		for slot := schedule.Next(c.day.Add(-time.Second)); slot.Before(c.day.AddDate(0, 0, 1)); slot = schedule.Next(slot) {
			slots[slot.UnixMicro()] = true
		}
		if len(slots) != c.want {
			t.Errorf("%s on %s: %d slots, want %d", c.spec, c.day.Format(time.DateOnly), len(slots), c.want)
		}
	}
}
