package contest

import (
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// cores is a set of CPU numbers, as Linux spells it.
type cores [16]uint64

// OnOneCore runs f while the program and the servers that it has started share one core. Between two cores a round
// trip of 30 us takes 30 or 100, as the scheduler pleases; the same work on one core takes the same time.
func OnOneCore(f func() error) error {
	var all cores
	if err := affinity(syscall.SYS_SCHED_GETAFFINITY, 0, &all); err != nil {
		return err
	}
	if err := moveTo(all.first(), os.Getpid()); err != nil {
		return err
	}
	defer moveTo(all, os.Getpid())
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	return f()
}

// first returns the set of c's first core alone.
func (c cores) first() (one cores) {
	for i, word := range c {
		if word != 0 {
			one[i] = 1 << bits.TrailingZeros64(word)
			break
		}
	}
	return one
}

// moveTo moves every thread of a process and of its children; later ones inherit where they run.
func moveTo(c cores, pid int) error {
	for _, thread := range numbersIn(fmt.Sprintf("/proc/%d/task", pid)) {
		err := affinity(syscall.SYS_SCHED_SETAFFINITY, thread, &c)
		if err != nil && err != syscall.ESRCH { // it may have ended meanwhile
			return fmt.Errorf("sched_setaffinity: %w", err)
		}
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, thread))
		for _, child := range strings.Fields(string(children)) {
			id, _ := strconv.Atoi(child)
			if err := moveTo(c, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// numbersIn returns the entries of a folder that are numbers.
func numbersIn(folder string) (all []int) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, n)
		}
	}
	return all
}

func affinity(call uintptr, thread int, c *cores) error {
	_, _, errno := syscall.RawSyscall(call, uintptr(thread), unsafe.Sizeof(*c), uintptr(unsafe.Pointer(c)))
	if errno != 0 {
		return errno
	}
	return nil
}
