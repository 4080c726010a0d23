package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sqllock/sqllock/bench/contest"
)

// A process of the bench's is told what to do by an environment variable.
const roleEnv = "SQLLOCK_BENCH_ROLE"

// role is what a process does: it takes part in a contest for few keys, or churns keys of its own while it may hold many.
type role struct {
	Servers    servers
	Rival      string
	Process    int
	Goroutines int
	Keys       int // 0: each its own
	Hold       int
	Turn       time.Duration
}

// part is what a process says of it.
type part struct {
	Pairs    int
	Seconds  float64
	Waits    []float64 // milliseconds: the median, and the longest
	Sections []section // with few keys
}

// A section is the time in which a key was held, in nanoseconds of the machine's clock.
type section struct {
	Key        int
	Start, End int64
}

func (a servers) rival(name string) (r rival, ok bool) {
	rivals := []rival{rueidisRival(a.Redis), redsyncRival(a.Redis), rueidislockRival(a.Redis)}
	for _, s := range a.sources() {
		rivals = append(rivals, s.lockers())
	}
	i := slices.IndexFunc(rivals, func(r rival) bool { return r.name == name })
	if i < 0 {
		return r, false
	}
	return rivals[i], true
}

// child plays a role, after a line on its standard input says that all are ready.
func child(text string) error {
	var ro role
	if err := json.Unmarshal([]byte(text), &ro); err != nil {
		return err
	}
	r, ok := ro.Servers.rival(ro.Rival)
	if !ok {
		return errors.New("no rival " + ro.Rival)
	}
	o, err := r.open(ro.Goroutines)
	if err != nil {
		return err
	}
	held := make([]func() error, ro.Hold) // what nobody refers to would be released
	defer runtime.KeepAlive(held)
	for i := range held {
		if held[i], err = o.lock(context.Background(), fmt.Sprintf("held/%d/%d", ro.Process, i)); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	var p part
	if ro.Keys > 0 {
		p, err = ro.contend(o)
	} else {
		p, err = ro.churn(o)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(p)
}

func (ro role) churn(o *opened) (part, error) {
	pair := o.pair
	o.pair = func(ctx context.Context, i int, key string) error {
		return pair(ctx, i, strconv.Itoa(ro.Process)+"/"+key)
	}
	pairs, took, err := churn(context.Background(), o, ro.Goroutines, ro.Turn)
	return part{Pairs: pairs, Seconds: took.Seconds()}, err
}

// contend has the goroutines wait for keys that all processes want.
func (ro role) contend(o *opened) (p part, err error) {
	parts, errs := make([]part, ro.Goroutines), make([]error, ro.Goroutines)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range ro.Goroutines {
		wg.Go(func() {
			for j := i; time.Since(start) < ro.Turn && errs[i] == nil; j++ {
				errs[i] = ro.waitOnce(o, j%ro.Keys, &parts[i])
			}
		})
	}
	wg.Wait()
	p.Seconds = time.Since(start).Seconds()
	var waits []float64
	for _, one := range parts {
		p.Pairs += len(one.Sections)
		p.Sections = append(p.Sections, one.Sections...)
		waits = append(waits, one.Waits...)
	}
	if len(waits) > 0 {
		p.Waits = []float64{contest.Quantile(waits, 0.5), slices.Max(waits)}
	}
	return p, first(errs)
}

func (ro role) waitOnce(o *opened, key int, p *part) error {
	asked := time.Now()
	unlock, err := o.lock(context.Background(), "contended/"+strconv.Itoa(key))
	if err != nil {
		return err
	}
	got := time.Now()
	p.Waits = append(p.Waits, float64(got.Sub(asked).Microseconds())/1e3)
	p.Sections = append(p.Sections, section{key, got.UnixNano(), time.Now().UnixNano()})
	return unlock()
}

// patience is for a rival whose waiters do not come back.
const patience = 20 * time.Second

// play runs one role in several processes at once.
func (b *bench) play(ro role, processes int) (parts []part, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), ro.Turn+patience)
	defer cancel()
	all := make([]*process, processes)
	for i := range all {
		ro.Process = i
		if all[i], err = startProcess(ctx, ro); err != nil {
			return nil, err
		}
		defer all[i].cmd.Wait() //nolint:errcheck // what went wrong has been read
		defer all[i].in.Close()
	}
	for _, c := range all {
		if !c.out.Scan() {
			return nil, fmt.Errorf("%s: a process ended early", ro.Rival)
		}
	}
	for _, c := range all {
		fmt.Fprintln(c.in)
	}
	for _, c := range all {
		var p part
		if !c.out.Scan() {
			return nil, fmt.Errorf("%s: a process failed", ro.Rival)
		}
		if err := json.Unmarshal(c.out.Bytes(), &p); err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

type process struct {
	cmd *exec.Cmd
	in  interface {
		Write([]byte) (int, error)
		Close() error
	}
	out *bufio.Scanner
}

func startProcess(ctx context.Context, ro role) (*process, error) {
	text, err := json.Marshal(ro)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &process{cmd: exec.CommandContext(ctx, program)}
	c.cmd.Env = append(os.Environ(), roleEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	c.out.Buffer(nil, 256<<20)
	return c, c.cmd.Start()
}

const contenders, contendedKeys, processes = 64, 16, 4

// contended is the contest of several processes for few keys.
func (b *bench) contended(context.Context) error {
	for _, name := range []string{"sqllock, PostgreSQL, pgx", "sqllock, PostgreSQL, lib/pq", "sqllock, MySQL", "sqllock, MariaDB", "rueidislock", "redsync"} {
		parts, err := b.play(role{Servers: b.servers, Rival: name, Goroutines: contenders, Keys: contendedKeys, Turn: 6 * b.turn}, processes)
		if err != nil {
			fmt.Printf("  %-30s failed: %v\n", name, err)
			continue
		}
		b.tell(name, parts)
	}
	return nil
}

func (b *bench) tell(name string, parts []part) {
	var speed float64
	var all []section
	var longest []float64
	for _, p := range parts {
		speed += float64(p.Pairs) / p.Seconds
		all = append(all, p.Sections...)
		if len(p.Waits) == 2 {
			longest = append(longest, p.Waits[1])
		}
	}
	n := overlaps(all)
	spread := slices.Max(longest) / contest.Quantile(longest, 0.5)
	text := fmt.Sprintf("%s: %.0f a second, %d overlaps, longest wait of a process: %.0f ms, %.1fx the median one's (bar 3x)", name, speed, n, slices.Max(longest), spread)
	if name[:7] == "sqllock" {
		b.bar(text, n == 0 && spread <= 3)
		return
	}
	fmt.Printf("  %s\n", text)
}

// overlaps counts the sections that began before another of their key had ended.
func overlaps(all []section) (n int) {
	slices.SortFunc(all, func(a, b section) int {
		if a.Key != b.Key {
			return a.Key - b.Key
		}
		return int(a.Start - b.Start)
	})
	for i := 1; i < len(all); i++ {
		if all[i].Key == all[i-1].Key && all[i].Start < all[i-1].End {
			n++
		}
	}
	return n
}

// grown is the first table's middle again while locks are held, in one and in several processes.
func (b *bench) grown(context.Context) error {
	for _, name := range []string{"sqllock, PostgreSQL, pgx", "sqllock, MySQL", "sqllock, MariaDB", "redsync"} {
		for _, hold := range []int{0, 1000, 5000} {
			if hold > 0 && name == "redsync" {
				continue // another key in a hash table
			}
			for _, n := range []int{1, processes} {
				parts, err := b.play(role{Servers: b.servers, Rival: name, Goroutines: 256 / n, Hold: hold / n, Turn: 2 * b.turn}, n)
				if err != nil {
					fmt.Printf("  %-30s %d processes, %d held: failed: %v\n", name, n, hold, err)
					continue
				}
				var speed float64
				for _, p := range parts {
					speed += float64(p.Pairs) / p.Seconds
				}
				fmt.Printf("  %-30s %d processes, %4d held: %7.0f pairs/s with 256 goroutines in all\n", name, n, hold, speed)
			}
		}
	}
	return nil
}
