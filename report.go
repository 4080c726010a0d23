package sqllock

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"
)

// A Kind says what a [Report] is about.
type Kind uint8

const (
	// Leak: a connection came back to the pool while its session still held a lock.
	Leak Kind = iota + 1
	// Unverified: a connection was discarded because it could not be proven that its session holds nothing.
	Unverified
	// MisplacedUnlock: an unlock released nothing, because another session holds the key, or none does.
	MisplacedUnlock
	// TxLockOutsideTx: a transaction lock was taken in autocommit, so that it was gone before the call returned.
	TxLockOutsideTx
	// SessionDied: a session ended while it held a lock, so that the lock is lost.
	SessionDied
	// ValidatorHidden: a wrapper around the guarded driver hides its IsValid, so that leaks are found late.
	ValidatorHidden
	// HeldTooLong: a lock is held longer than WithHoldLimit allows.
	HeldTooLong
)

var reportNames = [...]string{"", "Leak", "Unverified", "MisplacedUnlock", "TxLockOutsideTx", "SessionDied", "ValidatorHidden", "HeldTooLong"}

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(reportNames) {
		return reportNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// An Action says what the guard did with the connection that a [Report] is about.
type Action uint8

const (
	// Kept: the connection stays in the pool.
	Kept Action = iota
	// Discarded: the session was ended.
	Discarded
	// ResetKept: everything that the session held was released, and the connection stays in the pool.
	ResetKept
)

// String says it in a word.
func (a Action) String() string { return [...]string{"kept", "discarded", "reset"}[a] }

// A Report is one mistake that the guard found, and what it did about it.
type Report struct {
	Kind      Kind
	Action    Action
	Holds     []Hold    // Leak, SessionDied, HeldTooLong: what was held. MisplacedUnlock: who in this pool holds the key.
	Key       string    // MisplacedUnlock, TxLockOutsideTx: the key, where it could be read.
	Statement string    // The statement that it is about, without arguments, shortened.
	Stack     []uintptr // Where that statement was sent from, for runtime.CallersFrames; nil with WithStacks(false).
	Err       error     // Unverified: why the session could not be asked. SessionDied: what the driver said, if anything.
	Time      time.Time
}

// A Hold is a session lock that a connection of the pool is known to hold.
type Hold struct {
	Kind      string    // "advisory lock", "named lock", "table lock", "global read lock", "instance lock", "backup lock", "handler"
	Key       string    // The bigint, "a,b" for two ints, the name, or the table.
	Shared    bool      // Exclusive otherwise.
	Count     int       // How many releases it takes.
	Since     time.Time // When the first of them was taken.
	Statement string    // The statement that took it, without arguments, shortened.
	Stack     []uintptr // Where it was taken, for runtime.CallersFrames; nil with WithStacks(false).
	Conn      uint64    // Numbers the physical connections of a pool in the order in which they were opened.
}

// String names the lock, for example: advisory lock 42 (exclusive, held 2 times).
func (h Hold) String() string {
	mode := "exclusive"
	if h.Shared {
		mode = "shared"
	}
	if h.Count > 1 {
		mode += fmt.Sprintf(", held %d times", h.Count)
	}
	what := h.Kind
	if h.Key != "" {
		what += " " + legible(h.Key)
	}
	return fmt.Sprintf("%s (%s)", what, mode)
}

// Place returns the function, file and line that took the lock: the innermost caller outside of sqllock and
// database/sql. It is empty without a stack.
func (h Hold) Place() string { return place(h.Stack) }

// Place returns the function, file and line that sent the statement. It is empty without a stack.
func (r Report) Place() string { return place(r.Stack) }

// String says what happened, where, and what to do about it, in a few lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sqllock: %s", r.headline())
	for _, h := range r.Holds {
		fmt.Fprintf(&b, "\n  %s, connection %d, taken %s ago by %q", h, h.Conn, r.Time.Sub(h.Since).Round(time.Millisecond), h.Statement)
		if p := h.Place(); p != "" {
			fmt.Fprintf(&b, "\n    at %s", p)
		}
	}
	if r.Statement != "" && r.Kind != Leak { // a leak's is that of its hold
		fmt.Fprintf(&b, "\n  statement: %q", r.Statement)
		if p := r.Place(); p != "" {
			fmt.Fprintf(&b, "\n    at %s", p)
		}
	}
	if r.Err != nil {
		fmt.Fprintf(&b, "\n  error: %s", escape(strings.ReplaceAll(r.Err.Error(), "\n", "; "), 4*maxStatement))
	}
	fmt.Fprintf(&b, "\n  remedy: %s", r.remedy())
	return b.String()
}

func (r Report) headline() string {
	switch r.Kind {
	case Leak:
		return fmt.Sprintf("a connection came back to the pool still holding a session lock: %s", r.Action)
	case Unverified:
		return fmt.Sprintf("a connection came back to the pool in a state that could not be verified: %s", r.Action)
	case MisplacedUnlock:
		return fmt.Sprintf("an unlock of \"%s\" released nothing: this session does not hold it", legible(r.Key))
	case TxLockOutsideTx:
		return "a transaction lock was taken outside of a transaction: it was released before the call returned"
	case SessionDied:
		return "a session ended while it held a lock: the lock is lost"
	case ValidatorHidden:
		return "a wrapper around the guarded driver hides its IsValid: leaks are found only when a connection is next used"
	case HeldTooLong:
		return "a lock is held longer than the limit"
	default:
		return r.Kind.String()
	}
}

func (r Report) remedy() string {
	switch r.Kind {
	case Leak:
		return "release the lock on the same connection before it goes back, on every way out; sqllock's lockers do"
	case Unverified:
		return "send lock calls in a plain form (SELECT one call, read its row), and end transactions that text began; WithProbe settles the rest"
	case MisplacedUnlock:
		return "take and release on one pinned connection (*sql.Conn): a pool gives each call another session"
	case TxLockOutsideTx:
		return "take it on a *sql.Tx, or use sqllock.RunExclusive"
	case SessionDied:
		return "treat the protected work as unprotected from this moment; Lock.Context tells a holder at once"
	case ValidatorHidden:
		return "wrap the other way round, sqllock outermost, or forward driver.Validator"
	case HeldTooLong:
		return "look at the place above: a release is missing, or the work takes longer than expected"
	default:
		return ""
	}
}

// logPanic says so, unless it is the program's log that panics: then nobody can be told, and the connection still goes its way.
func logPanic(r Report, v any) {
	defer func() { _ = recover() }()
	slog.Error("sqllock: the function given to WithReport panicked", "panic", fmt.Sprint(v), "kind", r.Kind.String())
}

// place finds the caller that a reader wants to see: the innermost frame of the program itself, or else of a
// library, that is neither the guard nor database/sql.
func place(stack []uintptr) string {
	if len(stack) == 0 {
		return ""
	}
	first := ""
	for frames, more := runtime.CallersFrames(stack), true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if f.Function == "" || isPlumbing(f) {
			continue
		}
		at := fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line)
		if !isLibrary(f.File) {
			return at
		}
		if first == "" {
			first = at
		}
	}
	return first
}

// isLibrary says whether a file is one of a dependency's, such as an ORM's.
func isLibrary(file string) bool {
	return strings.Contains(file, "/pkg/mod/") || strings.Contains(file, "/vendor/")
}

func isPlumbing(f runtime.Frame) bool {
	for _, p := range []string{"github.com/sqllock/sqllock.", "database/sql.", "github.com/ngrok/sqlmw.", "runtime."} {
		if strings.HasPrefix(f.Function, p) {
			return !strings.HasSuffix(f.File, "_test.go")
		}
	}
	return false
}

const maxStatement = 200

// shorten folds white space and cuts the text, so that a report stays readable and keeps no large text alive.
func shorten(text string) string {
	if len(text) > 4*maxStatement {
		text = text[:4*maxStatement]
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if len(text) <= maxStatement {
		return strings.Clone(text)
	}
	cut := maxStatement
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
