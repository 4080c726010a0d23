//go:build !(linux || darwin || freebsd)

package testbed

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// canStart says that the test bed starts no servers here; the DSN variables still work.
var canStart = errors.New("the test bed starts servers on Linux, macOS and FreeBSD only")

type (
	process struct{ pid int }
	account struct{}
)

func (w *watchdog) launch([]string, *account, syscall.Signal, string) (*process, error) {
	return nil, canStart
}
func (p *process) exited() bool                 { return true }
func (p *process) await(time.Duration) error    { return canStart }
func (p *process) kill(syscall.Signal) error    { return canStart }
func (p *process) killAll(syscall.Signal) error { return canStart }
func (p *process) killNow() error               { return canStart }
func (p *process) resume()                      {}
func unprivileged() *account                    { return nil }
func isRoot() bool                              { return false }
func runAs(*exec.Cmd, *account)                 {}
func give(string, *account) error               { return canStart }
func flock(string) (func() error, error)        { return nil, canStart }
