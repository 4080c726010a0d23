package testbed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = time.Minute // both are generous: several test processes share a busy machine
	stopLimit  = time.Minute
)

// program is a server program of ours: its folder and port outlive its process, so that it can be restarted.
type program struct {
	engine *engine
	bin    string
	name   string // unique; what the server answers when asked who it is
	dir    string // holds its data folder, its log and whatever else it writes
	port   int
	args   []string // what the test wants besides engine.command

	dog     *watchdog
	stopped bool // by us
	*process
}

func (p *program) data() string { return filepath.Join(p.dir, "data") }
func (p *program) log() string  { return filepath.Join(p.dir, "log") }

// server returns how tests reach the program.
func (p *program) server() *Server {
	s := p.engine.login
	s.Kind, s.Host, s.Port, s.program, s.wide = p.engine.kind, "127.0.0.1", p.port, p, true
	return &s
}

// runOnFreePort runs the program on a port that nobody uses, and returns the server's version.
func (p *program) runOnFreePort() (version string, err error) {
	for range 5 {
		if p.port, err = freePort(); err != nil {
			return "", err
		}
		if version, err = p.run(); err == nil || !portTaken(err) {
			break
		}
	}
	return version, err
}

// run starts the program and returns the server's version when it answers.
func (p *program) run() (version string, err error) {
	if p.engine.configure != nil {
		if err := p.engine.configure(p); err != nil {
			return "", err
		}
	}
	p.process, err = p.dog.launch(p.engine.command(p), p.engine.user(), p.engine.immediate, p.log())
	if err != nil {
		return "", err
	}
	p.stopped = false
	return p.awaitHello()
}

// awaitHello waits until the server answers by its name: at its port there may be a stranger.
func (p *program) awaitHello() (version string, err error) {
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var name string
		if name, version, err = p.hello(); err == nil && name == p.name {
			return version, nil
		}
		if p.exited() {
			p.dog.forget(p.pid)
			return "", fmt.Errorf("%s ended at its start:\n%s", p.bin, tail(p.log(), 15))
		}
	}
	p.stop(syscall.SIGKILL)
	return "", fmt.Errorf("%s does not answer after %v (%v):\n%s", p.bin, startLimit, err, tail(p.log(), 15))
}

func (p *program) hello() (name, version string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return p.engine.hello(ctx, p.server())
}

// running tells whether the program runs: it may also have ended by itself.
func (p *program) running() bool { return p.process != nil && !p.exited() }

// stop ends the program with sig, and by force if that takes too long, which is an error.
func (p *program) stop(sig syscall.Signal) error {
	if !p.running() {
		return nil
	}
	p.stopped = true
	defer func() { p.dog.forget(p.pid) }()
	if sig == syscall.SIGKILL {
		return p.killNow()
	}
	p.kill(sig)
	err := p.await(stopLimit)
	if err != nil {
		p.killNow()
	}
	return err
}

// remove ends the program for good.
func (p *program) remove() {
	if p.running() {
		p.resume() // stopped, it would hear nothing else
		p.stop(p.engine.immediate)
	} else if p.process != nil && !p.stopped {
		fmt.Fprintf(os.Stderr, "testbed: %s ended by itself:\n%s\n", p.bin, tail(p.log(), 150))
	}
	if p.engine.sweep != nil {
		p.engine.sweep(p)
	}
	os.RemoveAll(p.dir)
}

// freePort returns a port that nobody listens on. It lies below the range from which the system takes ports for
// outgoing connections, or one of those could take it while the server restarts.
func freePort() (int, error) {
	for range 100 {
		port := 10000 + mathrand.IntN(20000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("testbed: found no free port")
}

// portTaken tells whether a start failed because somebody took the port since freePort looked at it.
func portTaken(err error) bool { return strings.Contains(err.Error(), "ddress already in use") }

// tail returns the last n lines of a log, for an error message.
func tail(log string, n int) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func randomName() string {
	b := make([]byte, 6)
	rand.Read(b)
	return fmt.Sprintf("%x", b)
}
