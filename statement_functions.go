package sqllock

import (
	"fmt"
	"strings"
)

// A callSet says which kinds of functions a statement calls.
type callSet uint8

const (
	callAcquire callSet = 1 << iota // it may acquire a session lock; a user's own lock function too
	callRelease
	callTxLock
	callRunner // it runs a text that it is given
)

// A function is what is known of a server's lock function.
type function struct {
	verb   verb
	shared bool
	calls  callSet
}

// postgresFunction knows the functions by their name as the server folds it.
func postgresFunction(name string) function {
	switch name {
	case "pg_advisory_lock":
		return function{verbAcquire, false, callAcquire}
	case "pg_advisory_lock_shared":
		return function{verbAcquire, true, callAcquire}
	case "pg_try_advisory_lock":
		return function{verbTry, false, callAcquire}
	case "pg_try_advisory_lock_shared":
		return function{verbTry, true, callAcquire}
	case "pg_advisory_unlock":
		return function{verbRelease, false, callRelease}
	case "pg_advisory_unlock_shared":
		return function{verbRelease, true, callRelease}
	case "pg_advisory_unlock_all":
		return function{verbReleaseAll, false, callRelease}
	case "pg_advisory_xact_lock":
		return function{verbTxLock, false, callTxLock}
	case "pg_advisory_xact_lock_shared":
		return function{verbTxLock, true, callTxLock}
	case "pg_try_advisory_xact_lock":
		return function{verbTryTxLock, false, callTxLock}
	case "pg_try_advisory_xact_lock_shared":
		return function{verbTryTxLock, true, callTxLock}
	}
	for _, prefix := range textRunners {
		if strings.HasPrefix(name, prefix) {
			return function{calls: callRunner}
		}
	}
	return function{}
}

// textRunners are the first letters of PostgreSQL's functions (contrib's too) that run a query given as text,
// or a cursor given by its name.
var textRunners = []string{"query_to_xml", "cursor_to_xml", "ts_stat", "ts_rewrite", "crosstab", "connectby", "xpath_table"}

// mysqlFunction knows the functions by their name in lower case.
func mysqlFunction(name string) function {
	switch name {
	case "get_lock":
		return function{verbTry, false, callAcquire}
	case "release_lock":
		return function{verbRelease, false, callRelease}
	case "release_all_locks":
		return function{verbReleaseAll, false, callRelease}
	case "execute_prepared_stmt": // a procedure of the schema sys
		return function{calls: callRunner}
	}
	return function{}
}

// longestFunction is the length of pg_try_advisory_xact_lock_shared: a longer name is nobody's.
const longestFunction = 32

// function returns what is known of the function that t names.
func (t *token) function(d Dialect) function {
	var buf [longestFunction]byte
	if len(t.text) > len(buf) {
		return function{}
	}
	n := copy(buf[:], t.text)
	if d == DialectMySQL {
		return mysqlFunction(string(foldAll(buf[:n])))
	}
	if t.kind == tokenWord {
		foldAll(buf[:n])
	}
	return postgresFunction(string(buf[:n]))
}

// foldAll turns b into lower case, in place.
func foldAll(b []byte) []byte {
	for i, c := range b {
		b[i] = lower(c)
	}
	return b
}

// lockFunctions are the user's own functions that acquire session locks: the last components of their names.
type lockFunctions []string

// newLockFunctions takes names as a user writes them: lock_job, app.lock_job.
func newLockFunctions(names []string) (lockFunctions, error) {
	var fns lockFunctions
	for _, name := range names {
		last := name[strings.LastIndexByte(name, '.')+1:]
		if !isFunctionName(name) {
			return nil, fmt.Errorf("\"%s\" is not a function's name: write name or schema.name, without quotes and parentheses", legible(name))
		}
		fns = append(fns, string(foldAll([]byte(last))))
	}
	return fns, nil
}

func isFunctionName(name string) bool {
	start := true
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case isLetter(c), !start && (isDigit(c) || c == '$'):
			start = false
		case c == '.' && !start:
			start = true
		default:
			return false
		}
	}
	return !start
}

// contains reports whether the name of a called function is one of f, in any case.
func (f lockFunctions) contains(name string) bool {
	for _, fn := range f {
		if equalFold(name, fn) {
			return true
		}
	}
	return false
}

// mentioned reports whether text contains one of f's names anywhere, in any case.
func (f lockFunctions) mentioned(text string) bool {
	for _, fn := range f {
		if containsFold(text, fn) {
			return true
		}
	}
	return false
}
