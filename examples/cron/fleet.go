package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// A fleet is the replicas' processes, and a table of what each last said.
type fleet struct {
	out      io.Writer
	live     bool // out is a terminal: draw the table over the last one
	drawn    bool
	replicas []*process
	said     chan saying
}

type process struct {
	name, status string
	cmd          *exec.Cmd
	in           io.Writer
	dead         bool
}

const (
	killed = "killed"
	sent   = "done: e-mail sent"
)

type saying struct {
	who  *process
	what string
}

func newFleet(out io.Writer, dsn, mail string, names ...string) (*fleet, error) {
	f := &fleet{out: out, said: make(chan saying)}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		f.live = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	for _, name := range names {
		if err := f.start(name, dsn, mail); err != nil {
			f.stop()
			return nil, err
		}
	}
	f.await(func(p *process) bool { return p.status == "ready" })
	return f, f.err()
}

func (f *fleet) start(name, dsn, mail string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p := &process{name: name, status: "starting", cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), "REPLICA="+name, "DSN="+dsn, "MAIL="+mail)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	said, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	f.replicas = append(f.replicas, p)
	go func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			f.said <- saying{p, lines.Text()}
		}
		f.said <- saying{p, killed}
	}()
	return nil
}

// tick fires all that live at once.
func (f *fleet) tick(line string) {
	f.drawn = false
	for _, p := range f.replicas {
		if !p.dead {
			p.status = "woken"
			fmt.Fprintln(p.in, line)
		}
	}
}

func allDone(p *process) bool {
	return strings.HasPrefix(p.status, "done") || strings.HasPrefix(p.status, "error")
}

func oneSettles(p *process) bool { return allDone(p) || strings.HasPrefix(p.status, "settles") }

// await listens until all that live are as wanted.
func (f *fleet) await(wanted func(*process) bool) {
	for !f.all(wanted) {
		s := <-f.said
		s.who.status = s.what
		s.who.dead = s.what == killed
		if f.live || !f.all(wanted) && strings.HasPrefix(s.what, "takes over") {
			f.draw()
		}
	}
	f.draw()
}

func (f *fleet) all(wanted func(*process) bool) bool {
	for _, p := range f.replicas {
		if !p.dead && !wanted(p) {
			return false
		}
	}
	return true
}

func (f *fleet) draw() {
	if f.live && f.drawn {
		fmt.Fprintf(f.out, "\x1b[%dA", len(f.replicas))
	}
	f.drawn = true
	for _, p := range f.replicas {
		fmt.Fprintf(f.out, "  %-10s | %-44s\n", p.name, p.status)
	}
}

// kill ends the one that is at work, without a word.
func (f *fleet) kill() {
	for _, p := range f.replicas {
		if strings.HasPrefix(p.status, "settles") {
			_ = p.cmd.Process.Kill()
			return
		}
	}
}

func (f *fleet) err() error {
	for _, p := range f.replicas {
		if strings.HasPrefix(p.status, "error") {
			return errors.New(p.name + ": " + p.status)
		}
	}
	return nil
}

// stop ends all, and waits for it.
func (f *fleet) stop() {
	for _, p := range f.replicas {
		_ = p.cmd.Process.Kill()
	}
	for nobody := func(*process) bool { return false }; !f.all(nobody); { // until all are dead
		s := <-f.said
		s.who.dead = s.who.dead || s.what == killed
	}
	for _, p := range f.replicas {
		_ = p.cmd.Wait()
	}
}
