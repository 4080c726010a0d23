package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// watchdogScript stops every program and removes their folder once the pipe at its standard input closes, which the
// kernel does when the test process ends: by os.Exit, a panic or kill -9 too. $1 is the folder.
//
// A program announces itself on the pipe before it runs (see launchScript), so there is no moment at which it could be
// orphaned. Its process group goes too, because a helper may be a shell script, and so do its children, because those
// of PostgreSQL are process groups of their own.
const watchdogScript = `
trap '' HUP INT TERM
children() { cat /proc/$1/task/$1/children 2>/dev/null; }
alive() { kill -0 $1 2>/dev/null && ! grep -q '^State:.Z' /proc/$1/status 2>/dev/null; }
watched=
while read -r word pid signal; do
	case $word in
	watch) watched="$watched $pid:$signal" ;;
	forget) rest=; for w in $watched; do [ "${w%:*}" = "$pid" ] || rest="$rest $w"; done; watched=$rest ;;
	esac
done
for w in $watched; do # asked first: a killed PostgreSQL leaves shared memory behind
	kill -"${w#*:}" ${w%:*}; kill -CONT ${w%:*} $(children ${w%:*})
done 2>/dev/null
for w in $watched; do
	pid=${w%:*}; tries=0
	while alive $pid && [ $tries -lt 100 ]; do sleep 0.05; tries=$((tries + 1)); done
	alive $pid && kill -KILL $pid $(children $pid)
	kill -KILL -$pid
done 2>/dev/null
for i in 1 2 3 4 5; do rm -rf -- "$1" && break; sleep 0.2; done 2>/dev/null # a child may still write
`

// launchScript becomes a server or a helper program, after it has told the watchdog its process id. $1 is the signal
// to stop it with, the rest is the command.
const launchScript = `echo "watch $$ $1" >&3; shift; exec "$@" 3>&-`

// watchdog is the test process's end of the pipe.
type watchdog struct {
	pipe   *os.File
	folder string // everything that the test bed writes, except for its cache
	cmd    *exec.Cmd
}

// startWatchdog starts this process's watchdog, once.
var startWatchdog = sync.OnceValues(func() (*watchdog, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// The watchdog is there before the folder that it is to remove.
	folder := filepath.Join(tempDir(), "sqllock-"+randomName())
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "sqllock-watchdog", folder)
	cmd.Stdin = r
	runAs(cmd, nil) // in a process group of its own: Ctrl-C is for the test process alone
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("testbed: start the watchdog: %w", err)
	}
	watchdogStarted.Store(true)
	if err := os.Mkdir(folder, 0o711); err != nil {
		return nil, err
	}
	return &watchdog{pipe: w, folder: folder, cmd: cmd}, os.Chmod(folder, 0o711) // whatever the umask: others pass through
})

// command returns a command that the watchdog ends with the signal stop, if need be.
func (w *watchdog) command(argv []string, as *account, stop syscall.Signal) *exec.Cmd {
	signal := strconv.Itoa(int(stop))
	cmd := exec.Command("/bin/sh", append([]string{"-c", launchScript, "sqllock-launch", signal}, argv...)...)
	cmd.ExtraFiles = []*os.File{w.pipe}
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	runAs(cmd, as)
	return cmd
}

// help runs a helper program to its end, in the folder that it fills. Its output counts only if it fails.
func (w *watchdog) help(argv []string, as *account, dir, stdin string) error {
	cmd := w.command(argv, as, syscall.SIGTERM)
	cmd.Dir = dir // as may not enter ours
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", argv[0], err, out)
	}
	w.forget(cmd.Process.Pid)
	return nil
}

// forget tells the watchdog that a program has ended: its process id may soon be another program's.
func (w *watchdog) forget(pid int) { fmt.Fprintf(w.pipe, "forget %d\n", pid) }

// end stops whatever still runs, removes the folder and returns when that is done.
func (w *watchdog) end() {
	w.pipe.Close()
	w.cmd.Wait()
}
