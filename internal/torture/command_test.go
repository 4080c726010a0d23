package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// The exit codes of sqllock run that say what became of the lock.
const (
	exitHeld = 1
	exitLost = 75
)

func buildCommand(t testing.TB, folder string) string {
	program := filepath.Join(folder, "sqllock")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/sqllock/sqllock/cmd/sqllock").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// command has sqllock run this program again, for one section. It goes on without a worker that is killed.
func (t *task) command(context.Context) {
	t.Op, t.Bound, t.Section = "command", silence, t.sections.Add(1)
	cmd := exec.Command(os.Getenv(envProgram), "run", "--key", t.Key, "--wait", "1s", "--silence", silence.String(), "--", os.Args[0])
	cmd.Env = append(os.Environ(), envKey+"="+t.Key, fmt.Sprintf("%s=%d", envSection, t.Section))
	out, err := cmd.CombinedOutput()
	switch cmd.ProcessState.ExitCode() {
	case 0:
		t.finish(kept)
	case exitHeld:
		t.finish(held)
	case exitLost:
		t.Error = err.Error() + ": " + string(out)
		t.finish(lost)
	default:
		t.Error = err.Error() + ": " + string(out)
		t.finish(failed)
	}
}

// commandMain is what the command runs.
func commandMain() error {
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	witness, err := openWitness()
	if err != nil {
		return err
	}
	section, err := strconv.ParseInt(os.Getenv(envSection), 10, 64)
	if err != nil {
		return err
	}
	e := event{Kind: "enter", At: time.Now(), Section: section, Op: "command", Key: os.Getenv(envKey), Bound: silence}
	witness.tell(e)
	wait(terminated, rand.N(silence/4)) //nolint:gosec // no secret
	e.Kind, e.At, e.Told = "leave", time.Now(), terminated.Err() != nil
	witness.tell(e)
	if e.Told {
		return errors.New("terminated")
	}
	return nil
}
