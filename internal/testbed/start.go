package testbed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// missing says that there is no program to start a server with.
type missing struct{ error }

// unwanted says that this run is about another kind of server.
type unwanted struct{ kind, only string }

func (u unwanted) Error() string {
	return fmt.Sprintf("no %s: this run is about %s alone", u.kind, u.only)
}

// wanted tells whether the tests may use e: SQLLOCK_ONLY names the one database server that they may.
func (e *engine) wanted() error {
	only := os.Getenv("SQLLOCK_ONLY")
	if only == "" || e.env == "" || e.kind == only {
		return nil
	}
	return unwanted{e.kind, only}
}

// shared returns the server of e that all tests of this process use.
func shared(t testing.TB, e *engine) *Server {
	t.Helper()
	s, err := sharedServer(e)()
	need(t, e, err)
	return s
}

var sharedServers sync.Map // *engine: func() (*Server, error)

// sharedServer returns a function that starts e's shared server when it is first called.
func sharedServer(e *engine) func() (*Server, error) {
	start, _ := sharedServers.LoadOrStore(e, sync.OnceValues(func() (*Server, error) {
		if err := e.wanted(); err != nil {
			return nil, err
		}
		if dsn := os.Getenv(e.env); dsn != "" {
			return e.parse(dsn)
		}
		return e.start(nil)
	}))
	return start.(func() (*Server, error))
}

// startPrivate starts a server that ends with t.
func startPrivate(t testing.TB, e *engine, args []string) *Server {
	t.Helper()
	s, err := e.start(args)
	need(t, e, err)
	s.private = true
	t.Cleanup(s.program.remove)
	return s
}

// need ends t if err is not nil: by a skip if only the program is missing and the environment does not require it.
func need(t testing.TB, e *engine, err error) {
	t.Helper()
	var none missing
	switch {
	case err == nil:
	case errors.As(err, &unwanted{}):
		t.Skipf("%v", err)
	case errors.As(err, &none) && os.Getenv("SQLLOCK_REQUIRE_SERVERS") != "1":
		t.Skipf("no %s: %v; `make servers` brings one", e.kind, err)
	default:
		t.Fatalf("no %s: %v", e.kind, err)
	}
}

// start makes a server and returns when it answers.
func (e *engine) start(args []string) (*Server, error) {
	if err := e.wanted(); err != nil {
		return nil, err
	}
	bin, err := e.find()
	if err == nil {
		err = canStart
	}
	if err != nil {
		return nil, missing{err}
	}
	p, err := e.prepare(bin, args)
	if err != nil {
		return nil, err
	}
	version, err := p.runOnFreePort()
	if err != nil {
		p.remove()
		return nil, err
	}
	s := p.server()
	s.Version = version
	return s, nil
}

// prepare gives a new program its folder.
func (e *engine) prepare(bin string, args []string) (*program, error) {
	dog, err := startWatchdog()
	if err != nil {
		return nil, err
	}
	name := randomName()
	p := &program{engine: e, bin: bin, name: name, dir: filepath.Join(dog.folder, name), args: args, dog: dog}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, err
	}
	if e.fill != nil {
		if err := e.copyTemplate(bin, p.data(), dog); err != nil {
			return nil, err
		}
	}
	return p, give(p.dir, e.user())
}

// user returns whom the program runs as; nil is the test process's own user.
func (e *engine) user() *account {
	if e.unprivileged && isRoot() {
		return unprivileged()
	}
	return nil
}

// Main runs a package's tests, stops its shared servers, and then does what else is to be cleaned up. It is optional, and for TestMain alone: a process
// that ends without it leaves nothing behind either, but its servers end a moment after it. The shared servers have no
// goroutine, so goleak.VerifyTestMain may stand in its place.
func Main(m *testing.M, more ...func()) {
	code := m.Run()
	stopAll()
	for _, f := range more {
		f()
	}
	os.Exit(code)
}

var watchdogStarted atomic.Bool

func stopAll() {
	sharedServers.Range(func(_, start any) bool {
		if s, err := start.(func() (*Server, error))(); err == nil && s.program != nil {
			s.program.remove()
		}
		return true
	})
	if watchdogStarted.Load() {
		dog, _ := startWatchdog()
		dog.end()
	}
}
