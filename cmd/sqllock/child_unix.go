//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A child is the command, in a process group with its guardian, which gets every signal and is ended as a whole.
type child struct {
	pid, group int
	ended      chan int // its exit code, as a shell would have it
	tty        int      // the terminal that is lent to it, or -1
	guardian   *exec.Cmd
	pipe       *os.File
	dismissed  sync.Once
}

// forwarded are the signals that the command gets. Those that we were started to ignore (nohup) stay ignored.
func forwarded() (list []os.Signal) {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH} {
		if !signal.Ignored(s) {
			list = append(list, s)
		}
	}
	return list
}

// ends says whether a signal would end a program that does not look at it.
func ends(s os.Signal) (n syscall.Signal, ok bool) {
	n, _ = s.(syscall.Signal)
	return n, n != syscall.SIGWINCH
}

// startChild starts the command. Its process group also ends, within the grace, when this process is killed.
func startChild(argv, env []string, grace time.Duration) (*child, error) {
	c := &child{ended: make(chan int, 1), tty: foregroundTerminal()}
	if err := c.post(grace); err != nil {
		return nil, &exit{exOSErr, "cannot start /bin/sh, which ends the command if sqllock is killed: " + err.Error()}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: c.group}
	if c.tty >= 0 {
		signal.Ignore(syscall.SIGTTOU) // or taking the terminal back would stop us
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, c.tty
	}
	if err := cmd.Start(); err != nil {
		c.dismiss()
		return nil, startError(argv[0], err)
	}
	c.pid = cmd.Process.Pid
	go c.wait()
	return c, nil
}

func startError(name string, err error) error {
	if errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EAGAIN) {
		return &exit{exOSErr, fmt.Sprintf("cannot run %s: %v", name, err)}
	}
	return &exit{exUnavailable, fmt.Sprintf("cannot run %s: %v", name, err)}
}

// guardianScript outlives a sqllock that is killed: the end of the pipe tells it, a line tells it that all is well. It leads the
// command's process group, so that there is no moment at which the command runs and the guardian does not know whom to end.
const guardianScript = `trap '' HUP INT QUIT TERM USR1 USR2 TSTP
read -r done && exit
kill -s TERM -- "-$$"
sleep "$1"
kill -s KILL -- "-$$"`

// post starts the guardian.
func (c *child) post(grace time.Duration) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	seconds := strconv.Itoa(int(math.Ceil(grace.Seconds())))
	c.guardian = exec.Command("/bin/sh", "-c", guardianScript, "sqllock-guardian", seconds)
	c.guardian.Dir, c.guardian.Stdin, c.guardian.SysProcAttr = "/", r, &syscall.SysProcAttr{Setpgid: true}
	if err := c.guardian.Start(); err != nil {
		w.Close()
		return err
	}
	c.pipe, c.group = w, c.guardian.Process.Pid
	return nil
}

// dismiss lets the guardian go: the command has ended.
func (c *child) dismiss() {
	c.dismissed.Do(func() {
		_, _ = io.WriteString(c.pipe, "done\n")
		c.pipe.Close()
		c.takeTerminal()
	})
}

// wait follows the command to its end. One that is stopped at a terminal (Ctrl-Z) stops us too, so that the shell notices; its
// lock goes on for as long as the silence bound.
func (c *child) wait() {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(c.pid, &ws, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			c.ended <- exOSErr
			return
		case ws.Stopped():
			c.stopped()
		case ws.Signaled():
			c.ended <- 128 + int(ws.Signal())
			return
		case ws.Exited():
			c.ended <- ws.ExitStatus()
			return
		}
	}
}

func (c *child) stopped() {
	if c.tty < 0 {
		return
	}
	c.takeTerminal()
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	_ = syscall.Kill(0, syscall.SIGTSTP) // another thread may be the one that it stops first
	<-continued
	if group, err := unix.IoctlGetInt(c.tty, unix.TIOCGPGRP); err == nil && group == syscall.Getpgrp() {
		_ = unix.IoctlSetPointerInt(c.tty, unix.TIOCSPGRP, c.group)
	}
	c.signal(syscall.SIGCONT)
}

// signal sends a signal to the whole group.
func (c *child) signal(s syscall.Signal) { _ = syscall.Kill(-c.group, s) }

// endGroup makes sure, after a loss, that what the command has started ends too: within what is left of the grace, which
// is nil when it is over. Dead ones that nobody has waited for count as members, so that only time ends this for sure.
func (c *child) endGroup(kill <-chan time.Time) {
	if kill == nil {
		c.signal(syscall.SIGKILL)
		return
	}
	c.dismiss()
	_ = c.guardian.Wait()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for syscall.Kill(-c.group, 0) == nil {
		select {
		case <-tick.C:
		case <-kill:
			c.signal(syscall.SIGKILL)
			return
		}
	}
}

// foregroundTerminal returns the terminal at our standard input if we are in its foreground, or -1.
func foregroundTerminal() int {
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return -1
	}
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || group != syscall.Getpgrp() {
		return -1
	}
	return fd
}

func (c *child) takeTerminal() {
	if c.tty >= 0 {
		_ = unix.IoctlSetPointerInt(c.tty, unix.TIOCSPGRP, syscall.Getpgrp())
	}
}
