package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// engine is what differs between the kinds of server.
type engine struct {
	kind string
	env  string // the variable with the DSN of a server that already runs
	// parse reads that DSN.
	parse func(dsn string) (*Server, error)

	// find returns the server program, or an error that says what is missing.
	find func() (string, error)
	// fill makes a fresh data folder, which is cached (see template.go); nil if the program needs none.
	fill func(h helper) error
	// recipe names everything that fill's result depends on besides the program.
	recipe string
	// configure writes the program's settings once its port is known; nil if command says them all.
	configure func(p *program) error
	// command returns the program and its arguments.
	command func(p *program) []string
	// login is how a test signs in to a server of ours.
	login Server
	// hello asks the server for the name it was started with, and for its version.
	hello func(ctx context.Context, s *Server) (name, version string, err error)

	// sweep removes what a killed program leaves outside its folder; nil if nothing.
	sweep func(p *program)

	unprivileged bool // the program refuses to run as root
	fast         syscall.Signal
	immediate    syscall.Signal
}

// helper runs programs that fill a new data folder, as the folder's owner.
type helper struct {
	bin string // the server program
	dir string
	dog *watchdog
	as  *account
}

func (h helper) run(argv []string, stdin string) error { return h.dog.help(argv, h.as, h.dir, stdin) }

// lookPath looks for a program in PATH, then in folders: shell patterns, of whose matches the last one counts
// (/usr/lib/postgresql/*/bin: the newest).
func lookPath(name string, folders ...string) (string, error) {
	if bin, err := exec.LookPath(name); err == nil {
		return filepath.EvalSymlinks(bin)
	}
	for _, folder := range folders {
		found, _ := filepath.Glob(filepath.Join(folder, name))
		for i := len(found) - 1; i >= 0; i-- {
			if isProgram(found[i]) {
				return filepath.EvalSymlinks(found[i])
			}
		}
	}
	return "", errors.New(name + " is neither in PATH nor in its usual folder")
}

// lookProgram is lookPath for a server program, unless the environment variable env names the folder that it is in.
func lookProgram(env, name string, folders ...string) (string, error) {
	folder := os.Getenv(env)
	if folder == "" {
		return lookPath(name, folders...)
	}
	bin := filepath.Join(folder, name)
	if !isProgram(bin) {
		return "", fmt.Errorf("%s=%s: there is no %s in it", env, folder, name)
	}
	return filepath.EvalSymlinks(bin)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
