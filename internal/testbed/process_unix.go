//go:build linux || darwin || freebsd

package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a running server program and, on Linux, its children.
type process struct {
	pid int

	mu    sync.Mutex
	ended bool
}

// launch starts argv under the watchdog. Its output goes to log.
func (w *watchdog) launch(argv []string, as *account, stop syscall.Signal, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := w.command(argv, as, stop)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, filepath.Dir(log)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{pid: cmd.Process.Pid}
	return p, cmd.Process.Release() // exited waits for it, without a goroutine that leak checks would see
}

// exited tells whether the program has ended, and reaps it if so.
func (p *process) exited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return true
	}
	pid, err := syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
	p.ended = pid == p.pid || err == syscall.ECHILD
	return p.ended
}

// await waits until the program has ended.
func (p *process) await(within time.Duration) error {
	for deadline := time.Now().Add(within); !p.exited(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("testbed: process %d still runs after %v", p.pid, within)
		}
	}
	return nil
}

// kill sends sig to the program alone.
func (p *process) kill(sig syscall.Signal) error { return syscall.Kill(p.pid, sig) }

// killAll sends sig to the program and its children.
func (p *process) killAll(sig syscall.Signal) error {
	children, err := p.freeze()
	if err != nil {
		return err
	}
	for _, pid := range children {
		syscall.Kill(pid, sig) // it may have ended since
	}
	if sig == syscall.SIGSTOP {
		awaitState(children, stopped)
		return nil
	}
	err = p.kill(sig)
	p.kill(syscall.SIGCONT)
	return err
}

// freeze stops the program itself, so that it makes no more children than those that it returns.
func (p *process) freeze() (children []int, err error) {
	if err := p.kill(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	awaitState([]int{p.pid}, stopped)
	return p.children(), nil
}

// resume lets a stopped program and its children go on.
func (p *process) resume() { p.killAll(syscall.SIGCONT) }

// killNow ends the program and its children at once, as a power cut would, and returns when they are gone: the last
// child to go frees the shared memory that a restart would stumble over.
func (p *process) killNow() error {
	children, err := p.freeze()
	if err != nil {
		return err
	}
	for _, pid := range append(children, p.pid) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	awaitState(children, dead)
	return p.await(stopLimit)
}

// children returns the process ids of the program's children; only Linux says them.
func (p *process) children() (pids []int) {
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.pid, p.pid))
	for _, field := range strings.Fields(string(list)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A signal is asynchronous: a thread on another CPU may still answer a query after kill has returned. So whoever
// sends one awaits its effect, which is a state of every thread: T is stopped, Z and X are dead.
const (
	stopped = "TZX"
	dead    = "ZX"
)

// awaitState waits until all threads of all processes are in one of states, or gone. It gives up in the end: an
// uninterruptible thread is no reason to hang. Where there is no /proc it does not wait.
func awaitState(pids []int, states string) {
	other := func(state string) bool { return !strings.Contains(states, state) }
	for deadline := time.Now().Add(stopLimit); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		if !slices.ContainsFunc(pids, func(pid int) bool { return slices.ContainsFunc(threads(pid), other) }) {
			return
		}
	}
}

// threads returns the states of a process's threads.
func threads(pid int) (states []string) {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, stat := range stats {
		text, _ := os.ReadFile(stat)
		if _, rest, ok := strings.Cut(string(text), ") "); ok && rest != "" { // "42 (its name) S ..."
			states = append(states, rest[:1])
		}
	}
	return states
}
