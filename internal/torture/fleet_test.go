package torture

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sqllock/sqllock/internal/testbed"
)

const workers = 4

// A process is a worker as the test sees it.
type process struct {
	name   string
	log    string // the file of what it complains about
	cmd    *exec.Cmd
	orders io.WriteCloser
	says   *bufio.Scanner

	mu     sync.Mutex
	stops  []span    // guarded by mu: when it stood still, or was being killed
	killed time.Time // guarded by mu: just before; zero if it was not
}

type span struct {
	from, to time.Time
	what     string
}

// A fleet is all workers of one run. Only one goroutine strikes it.
type fleet struct {
	t       testing.TB
	seed    uint64
	folder  string
	drivers []string
	server  *testbed.Server // as the workers reach it
	program string          // sqllock
	witness *testbed.Server
	alive   []*process
	all     []*process
	faults  []span    // of server and network, which strike all
	calm    time.Time // when they ended
}

func startFleet(t testing.TB, seed uint64, server *testbed.Server, drivers ...string) *fleet {
	f := &fleet{t: t, seed: seed, folder: t.TempDir(), server: server, witness: newWitness(t), drivers: drivers}
	f.program = buildCommand(t, f.folder)
	if err := os.Mkdir(filepath.Join(f.folder, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range workers {
		f.alive = append(f.alive, f.start(drivers[i%len(drivers)]))
	}
	return f
}

func (f *fleet) start(driver string) *process {
	p := &process{name: fmt.Sprintf("worker %d (%s)", len(f.all)+1, driver)}
	p.log = filepath.Join(f.folder, fmt.Sprint(len(f.all)+1))
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), envDriver+"="+driver, envDSN+"="+f.server.DSN(), envName+"="+p.name, envWitness+"="+f.witness.DSN(),
		envProgram+"="+f.program, "SQLLOCK_DSN="+f.server.DSN(), "TMPDIR="+filepath.Join(f.folder, "tmp"),
		fmt.Sprintf("%s=%d", envSeed, f.seed+uint64(len(f.all))))
	log, err := os.Create(p.log)
	if err != nil {
		f.t.Error(err)
		return p
	}
	defer log.Close()
	p.cmd.Stderr = log
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		f.t.Error(err1, err2)
		return p
	}
	p.orders, p.says = in, bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		f.t.Error(err)
		return p
	}
	f.all = append(f.all, p)
	f.t.Cleanup(p.end)
	if line := p.line(); line != "started" {
		f.t.Errorf("%s says %q: %s", p.name, line, p.stderr())
	}
	return p
}

func (p *process) line() string {
	p.says.Scan()
	return p.says.Text()
}

// stderr is what the worker had to complain about, cut.
func (p *process) stderr() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-20_000):])
}

func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// kill is kill -9; another worker with the same driver takes the place.
func (f *fleet) kill(i int) {
	p := f.alive[i]
	p.mu.Lock()
	p.killed = time.Now()
	p.mu.Unlock()
	p.end()
	p.stood(p.killed, "killed")
	f.alive[i] = f.start(f.drivers[i%len(f.drivers)])
}

// freeze stops a worker, for as long as wait takes.
func (f *fleet) freeze(i int, wait func()) {
	p := f.alive[i]
	from := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		f.t.Error(err)
	}
	wait()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		f.t.Error(err)
	}
	p.stood(from, "stopped")
}

func (p *process) stood(from time.Time, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stops = append(p.stops, span{from, time.Now(), what})
}

// order tells every worker something and waits for what they answer; a worker that does not answer shows its stacks.
func (f *fleet) order(order, answer string, within time.Duration) (left []string) {
	for _, p := range f.alive {
		fmt.Fprintln(p.orders, order)
	}
	for _, p := range f.alive {
		late := time.AfterFunc(within, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
		line := p.line()
		for ; strings.HasPrefix(line, "left: "); line = p.line() {
			left = append(left, p.name+": "+strings.TrimPrefix(line, "left: "))
		}
		if late.Stop(); line != answer {
			left = append(left, fmt.Sprintf("%s does not answer %q but %q: %s", p.name, order, line, p.stderr()))
		}
	}
	return left
}

// files are those that somebody has left in the folder for temporary ones.
func (f *fleet) files() (left []string) {
	entries, err := os.ReadDir(filepath.Join(f.folder, "tmp"))
	if err != nil {
		f.t.Error(err)
	}
	for _, e := range entries {
		left = append(left, "file "+e.Name())
	}
	return left
}
