package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// watchdogScript stops every server and removes their folder once the pipe at its standard input closes, which
// the kernel does when the test process ends: by os.Exit, a panic or kill -9 too. $1 is the folder.
//
// A server announces itself on the pipe before it runs (see launchScript), so there is no moment at which it
// could be orphaned. Its children count, because PostgreSQL's backends are process groups of their own.
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
done 2>/dev/null
rm -rf -- "$1"
`

// launchScript becomes the server program, after it has told the watchdog its process id. $1 is the signal to
// stop it with, the rest is the command.
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
	return &watchdog{pipe: w, folder: folder, cmd: cmd}, os.Mkdir(folder, 0o711)
})

// forget tells the watchdog that a server has ended: its process id may soon be another program's.
func (w *watchdog) forget(pid int) { fmt.Fprintf(w.pipe, "forget %d\n", pid) }

// end stops whatever still runs, removes the folder and returns when that is done.
func (w *watchdog) end() {
	w.pipe.Close()
	w.cmd.Wait()
}
