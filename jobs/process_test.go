//go:build unix

package jobs_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
)

// A child is a replica as a process of its own: this test's binary, which runs replicaMain.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// start starts a child and lets it work in the background. It is killed when t ends, at the latest.
func start(t *testing.T, s *testbed.Server, role string, env ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(exe)}
	c.cmd.Env = append(os.Environ(), append(env, "SQLLOCK_REPLICA="+role, "DSN="+s.DSN(), "POSTGRES="+strconv.FormatBool(isPostgres(s)))...)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// line is the next thing that the child says; "" if it has ended.
func (c *child) line() string {
	c.lines.Scan()
	return c.lines.Text()
}

// kill is kill -9.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func init() {
	replicaMain = func(role string) int {
		postgres := os.Getenv("POSTGRES") == "true"
		r, err := newReplica(os.Getenv("DSN"), postgres, jobs.WithAttempts(1000))
		if err == nil {
			err = map[string]func(*replica, bool) error{"stop": stopAt, "chaos": chaos, "fire": fire}[role](r, postgres)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			return 1
		}
		return 0
	}
}

// stopAt stops in the middle of Once, says so, and waits for its end.
func stopAt(r *replica, _ bool) error {
	stop := func(step string) {
		if step == os.Getenv("STEP") {
			fmt.Println("at", step)
			_, _ = io.Copy(io.Discard, os.Stdin)
			select {}
		}
	}
	r.OnStep(stop)
	_, err := r.Once(context.Background(), "j", slot0, func(context.Context, *jobs.Run) error { stop("job"); return nil })
	return err
}

func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s, jobs.WithAttempts(1000))
		for _, c := range []struct {
			step      string
			left      string // the row that is left behind
			recovered int
			end       string
		}{
			{"look", "", 0, "succeeded 1"},
			{"lock", "", 0, "succeeded 1"},
			{"insert", "", 0, "succeeded 1"},
			{"run", "running 1", 1, "succeeded 2"},
			{"job", "running 1", 1, "succeeded 2"},
			{"finish", "running 1", 1, "succeeded 2"},
			{"release", "succeeded 1", 0, "succeeded 1"},
			{"end", "succeeded 1", 0, "succeeded 1"},
		} {
			killed := start(t, s, "stop", "STEP="+c.step)
			if got := killed.line(); got != "at "+c.step {
				t.Fatalf("the child says %q", got)
			}
			killed.kill()
			s.AwaitFree(t, 5*time.Second)
			if got := strings.Join(r.history(t, "j"), ""); strings.TrimPrefix(got, "03-29T00:00:00 ") != c.left {
				t.Errorf("killed at %s: history %q, want %q", c.step, got, c.left)
			}
			if n, err := r.Recover(t.Context(), "j", done); n != c.recovered || err != nil {
				t.Errorf("killed at %s: Recover %d, %v; want %d", c.step, n, err, c.recovered)
			}
			if _, err := r.Once(t.Context(), "j", slot0, done); err != nil {
				t.Errorf("killed at %s: Once: %v", c.step, err)
			}
			if got := strings.Join(r.history(t, "j"), ""); strings.TrimPrefix(got, "03-29T00:00:00 ") != c.end {
				t.Errorf("killed at %s: history %q, want %q", c.step, got, c.end)
			}
			if _, err := s.Outside(t).ExecContext(t.Context(), "DELETE FROM job_runs"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// fire fires one slot.
func fire(r *replica, _ bool) error {
	outcome, err := r.Do(context.Background(), "j", slot0, done)
	fmt.Println(outcome)
	return err
}

// One replica's clock is 7 s early and two are 450 ms apart: they fire the same slot one after the other, long after the fast
// job of the first has ended.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s)
		begin := time.Now()
		for i, at := range []time.Duration{0, 7 * time.Second / slow, 7*time.Second/slow + 450*time.Millisecond} {
			c := start(t, s, "fire")
			await(t, "time to fire", 10*time.Second, func() bool { return time.Since(begin) >= at })
			want := "already succeeded"
			if i == 0 {
				want = "ran"
			}
			if got := c.line(); got != want {
				t.Errorf("replica %d: %s, want %s", i, got, want)
			}
		}
		if got := r.history(t, "j"); !slices.Equal(got, []string{"03-29T00:00:00 succeeded 1"}) {
			t.Errorf("history: %q", got)
		}
	})
}

// slow divides seconds that a test has no reason to wait for, unless it is asked to.
var slow = map[bool]time.Duration{true: 1, false: 10}[os.Getenv("SQLLOCK_TEST_LONG") != ""]

// chaos runs every slot, and at times ends without a word, anywhere.
func chaos(r *replica, postgres bool) error {
	// Before any connection: the kernel closes it first, so that it is free before the database can give the lock away.
	inside, err := os.Open(os.Getenv("FOLDER"))
	if err != nil {
		return err
	}
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	dice := rand.New(rand.NewPCG(seed, 1))
	r.OnStep(func(step string) {
		if step != "look" && step != "lock" && dice.IntN(8) == 0 { // those two are also done for slots that need nothing
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	work := func(ctx context.Context, run *jobs.Run) error {
		if err := syscall.Flock(int(inside.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = os.WriteFile(os.Getenv("FOLDER")+"/overlap", []byte(err.Error()), 0o600)
		}
		defer func() { _ = syscall.Flock(int(inside.Fd()), syscall.LOCK_UN) }()
		time.Sleep(time.Duration(dice.IntN(10)) * time.Millisecond) // it works
		return effect(ctx, r.db, postgres, run)
	}
	slots, _ := strconv.Atoi(os.Getenv("SLOTS"))
	for i := range slots {
		slot := slot0.Add(time.Duration(i) * time.Hour)
		for {
			outcome, err := r.Catch(context.Background(), "j", slot, work)
			if err != nil {
				return err
			}
			if outcome != jobs.HeldElsewhere {
				break
			}
			time.Sleep(time.Duration(1+dice.IntN(3)) * time.Millisecond)
		}
	}
	return nil
}

// effect is what the job does to the world: once for each slot, because the slot is its key.
func effect(ctx context.Context, db *sql.DB, postgres bool, run *jobs.Run) error {
	if postgres {
		_, err := db.ExecContext(ctx, "INSERT INTO effects (slot, token) VALUES ($1, $2) ON CONFLICT DO NOTHING", run.Slot.Format(time.DateTime), run.Token)
		return err
	}
	_, err := db.ExecContext(ctx, "INSERT IGNORE INTO effects (slot, token) VALUES (?, ?)", run.Slot.Format(time.DateTime), run.Token)
	return err
}

func TestRandomKills(t *testing.T) {
	t.Parallel()
	slots := 20
	if os.Getenv("SQLLOCK_TEST_LONG") != "" {
		slots = 200
	}
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s, jobs.WithAttempts(1000))
		out := s.Outside(t)
		if _, err := out.ExecContext(t.Context(), "CREATE TABLE effects (slot varchar(30) PRIMARY KEY, token bigint)"); err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		kills := besiege(t, s, folder, slots)
		if _, err := os.Stat(folder + "/overlap"); err == nil {
			t.Error("two runners were inside of the job at once")
		}
		records, err := r.Runs(t.Context(), "j", 1000)
		if err != nil {
			t.Fatal(err)
		}
		attempts := 0
		for i, one := range records {
			attempts += one.Attempt
			if slot := slot0.Add(time.Duration(slots-1-i) * time.Hour); one.Status != jobs.StatusSucceeded || !one.Slot.Equal(slot) {
				t.Errorf("%+v", one)
			}
		}
		var effects int
		if err := out.QueryRowContext(t.Context(), "SELECT count(*) FROM effects").Scan(&effects); err != nil {
			t.Fatal(err)
		}
		if len(records) != slots || effects != slots {
			t.Errorf("%d slots of %d have a row, %d an effect", len(records), slots, effects)
		}
		if kills == 0 {
			t.Error("nothing was killed")
		}
		t.Logf("%d slots, %d attempts, %d kills", slots, attempts, kills)
	})
}

// besiege keeps three replicas going until all have seen every slot done, and returns how many were killed.
func besiege(t *testing.T, s *testbed.Server, folder string, slots int) (kills int) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	type end struct {
		killed bool
		err    error
	}
	ends := make(chan end)
	deadline := time.Now().Add(time.Duration(slots) * 3 * time.Second)
	launch := func(n int) {
		c := start(t, s, "chaos", "FOLDER="+folder, "SLOTS="+strconv.Itoa(slots), fmt.Sprint("SEED=", seed+uint64(n)))
		dice := rand.New(rand.NewPCG(seed, uint64(n)))
		go func() {
			timer := time.AfterFunc(time.Duration(300+dice.IntN(3000))*time.Millisecond, func() { _ = c.cmd.Process.Kill() })
			err := c.cmd.Wait()
			timer.Stop()
			ends <- end{err != nil && err.Error() == "signal: killed", err}
		}()
	}
	started := 0
	for range 3 {
		launch(started)
		started++
	}
	for running := 3; running > 0; {
		e := <-ends
		switch {
		case e.killed && time.Now().Before(deadline):
			kills++
			launch(started)
			started++
		case e.killed:
			t.Error("the replicas do not come to an end")
			running--
		default:
			running--
			if e.err != nil {
				t.Errorf("a replica ended: %v", e.err)
			}
		}
	}
	return kills
}
