//go:build !unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// A child is the command. Without process groups and signals it can only be killed, alone, and it outlives a sqllock that is killed.
type child struct {
	cmd   *exec.Cmd
	ended chan int
}

func forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

func ends(os.Signal) (syscall.Signal, bool) { return syscall.SIGINT, true }

func startChild(argv, env []string, _ time.Duration) (*child, error) {
	c := &child{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan int, 1)}
	c.cmd.Env, c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	if err := c.cmd.Start(); err != nil {
		return nil, &exit{exUnavailable, fmt.Sprintf("cannot run %s: %v", argv[0], err)}
	}
	go func() {
		_ = c.cmd.Wait()
		c.ended <- c.cmd.ProcessState.ExitCode()
	}()
	return c, nil
}

func (c *child) dismiss() {}

func (c *child) signal(s syscall.Signal) {
	if s == syscall.SIGTERM || s == syscall.SIGKILL {
		_ = c.cmd.Process.Kill()
	}
}

func (c *child) endGroup(<-chan time.Time) {}
