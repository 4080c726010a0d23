//go:build linux && !race

package sqllock

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// processorTime returns what f takes on a processor; where that is more than enough, the best of some tries, because
// a busy neighbour slows a processor too.
func processorTime(enough time.Duration, f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const thread = 1 // RUSAGE_THREAD
	best := time.Hour
	for try := 0; try < 20 && best > enough; try++ {
		var before, after syscall.Rusage
		_ = syscall.Getrusage(thread, &before)
		f()
		_ = syscall.Getrusage(thread, &after)
		best = min(best, time.Duration(after.Utime.Nano()-before.Utime.Nano()))
	}
	return best
}

// A text of 1 MiB takes a few milliseconds, whatever it is made of. (Without -race, which is ten times slower.)
func TestLinear(t *testing.T) {
	const size, limit = 1 << 20, 50 * time.Millisecond
	starts := []string{"SELECT ", "DO ", "PREPARE p FROM '", "BEGIN NOT ATOMIC ", "SET STATEMENT a=", "CREATE PROCEDURE p() BEGIN ", "SELECT E", `SELECT '\xff\`, "SELECT \""}
	pieces := []string{"a", " ", ";", "(", ")", "'", "''", "\"", "`", "\\", "\\'", "$", "$a", "$a$", "$a$b", "$1", "/*", "*/", "/* ", "/*!", "/*!99999 ", "/*!50000 ", "/*M!", "/*! */", "--", "-- \n", "#", "#\n", "E'\n", "E'x'\n", "E''\n--\n",
		"U&\"", "U&\"\"", "U&\"\\0061\" ", "U&\"\" UESCAPE ", "U&\"a\"/**/", "@", "@'", "?", "1", "1.", "0x", ".", ":", "_advisory_", "_advisory", "t_lock", "t_loc", "_", "l_", "advisory ", "execut", "get_lock(", "pg_advisory_lock(1)",
		"BEGIN ", "END ", "CASE ", "END IF ", "FOR ", "LOCK ", "LOCK IN ", "BEGIN;", "SELECT 1;", "LOCK TABLES t READ;", "PREPARE p FROM 'SELECT 1';", "PREPARE p FROM 'x", "\xff", "\xa0", "\xbf\\", "\xff'\"\\", "é", "\x00", "&", "&\"", "&\" "}
	for _, d := range []Dialect{DialectPostgres, DialectMySQL} {
		for i, piece := range pieces {
			for _, start := range []string{"", starts[i%len(starts)]} {
				text := start + sized(piece, size)
				took := processorTime(limit, func() {
					recognise(d, text, lockFunctions{"lock_job"})
					ordinary(d, text)
				})
				if took > limit {
					t.Errorf("%v: %s and 1 MiB of %q took %v", d, start, piece, took)
				}
			}
		}
	}
}
