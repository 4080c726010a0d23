package torture

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	place  int    // of those that are alive; another one takes it when this one is killed
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
	place    int  // of the one worker that it struck, or everywhere
	prompt   bool // a holder's time to be told begins with it
}

const everywhere = -1

// A fleet is all workers of one run. Only one goroutine strikes it.
type fleet struct {
	t       testing.TB
	seed    uint64
	folder  string
	drivers []string
	server  *testbed.Server
	links   []*testbed.Proxy // through which each place reaches it
	program string           // sqllock
	witness *testbed.Server
	alive   []*process
	all     []*process
	faults  []span    // of server and network
	calm    time.Time // when they ended
}

func startFleet(t testing.TB, seed uint64, server *testbed.Server, drivers ...string) *fleet {
	f := &fleet{t: t, seed: seed, folder: t.TempDir(), server: server, witness: newWitness(t), drivers: drivers}
	f.program = buildCommand(t, f.folder)
	if err := os.Mkdir(filepath.Join(f.folder, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range workers {
		f.links = append(f.links, testbed.NewProxy(t, server.Addr()))
		f.alive = append(f.alive, f.start(i))
	}
	return f
}

func (f *fleet) start(place int) *process {
	driver, dsn := f.drivers[place%len(f.drivers)], f.server.Via(f.links[place]).DSN()
	p := &process{place: place, name: fmt.Sprintf("worker %d (%s)", len(f.all)+1, driver)}
	p.log = filepath.Join(f.folder, fmt.Sprint(len(f.all)+1))
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), envDriver+"="+driver, envDSN+"="+dsn, envName+"="+p.name, envWitness+"="+f.witness.DSN(),
		envProgram+"="+f.program, "SQLLOCK_DSN="+dsn, "TMPDIR="+filepath.Join(f.folder, "tmp"),
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
	f.alive[i] = f.start(i)
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
	p.stops = append(p.stops, span{from: from, to: time.Now(), what: what})
}

func (f *fleet) tell(order string) {
	for _, p := range f.alive {
		fmt.Fprintln(p.orders, order)
	}
}

// order tells every worker something and waits for what they answer; a worker that does not answer shows its stacks.
func (f *fleet) order(order, answer string, within time.Duration) (left []string) {
	f.tell(order)
	for _, p := range f.alive {
		late := time.AfterFunc(within, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
		line := p.line()
		for ; strings.HasPrefix(line, "left: "); line = p.line() {
			left = append(left, p.name+": "+strings.TrimPrefix(line, "left: ")+"\n"+p.stderr())
		}
		if late.Stop(); line != answer {
			left = append(left, fmt.Sprintf("%s does not answer %q but %q: %s", p.name, order, line, p.stderr()))
		}
	}
	return left
}

func (f *fleet) faultsAt(place int) []span {
	return slices.DeleteFunc(slices.Clone(f.faults), func(s span) bool { return s.place != everywhere && s.place != place })
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
