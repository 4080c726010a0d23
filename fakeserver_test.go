package sqllock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fakeServer is a database server for tests: sessions, a lock table, and a record of what reached it.
// fakedriver_test.go has the driver that talks to it.
//
// It speaks a small language; "$1" is a parameter, and several statements may stand in one text:
//
//	SELECT 7                        one row with an int64
//	SELECT echo($1, $2)             one row that describes the arguments as they arrived
//	SELECT sets(3)                  three result sets of one row each
//	BEGIN | COMMIT | ROLLBACK       a transaction by text
//	SELECT f(k), g(k) ...           lock functions of PostgreSQL, also with pg_catalog. in front:
//	                                pg_[try_]advisory_[xact_]lock[_shared](bigint | int,int),
//	                                pg_advisory_unlock[_shared](...) and pg_advisory_unlock_all().
//	                                ... OFFSET 1 keeps the row back;
//	                                ... FROM generate_series(1, 3) calls them for three rows
//	SELECT locks_unseen(k)          takes the advisory lock k, as a function of the user's own would
//	SELECT pg_backend_pid()         the session's number
//	SELECT ... FROM pg_locks ...    the guard's probe: what this session holds
//
// What goes wrong is not in the language, because a lock statement has to be sent exactly as users write it:
// inject makes the next executions of a text go wrong.
//
// When the test ends, everything must have been closed, and every session lock that the client was told of and
// that ended without an unlock of the user's own must be in a report, unless it ended with its session before that
// came back.
type fakeServer struct {
	tb      testing.TB
	bare    bool        // no guard is in front: nobody reports
	quiet   bool        // keep no record of calls, for allocation counts
	lenient bool        // things may stay open, and held
	invalid atomic.Bool // what a Validator says

	mu       sync.Mutex
	sessions []*fakeSession // all that were ever opened
	open     int            // statements and rows that are not closed
	calls    []string       // every call that reached the driver, but IsValid
	executed map[string]int // how often a text really ran
	faults   map[string][]fault
	orphans  []string // keys of the locks that ended without an unlock of the user's own
	changed  chan struct{}

	reportMu sync.Mutex
	reports  []Report
}

// fakeSession is one session of a fakeServer. Its locks belong to the server's mutex, line to the connection alone.
type fakeSession struct {
	srv    *fakeServer
	id     int
	locks  map[fakeLock]int
	taken  []fakeLock        // by the statement that is running
	told   map[fakeLock]bool // the client knows, because the statement that took it was answered
	tx     bool
	ended  bool // the server has ended it
	bad    bool // the client was told driver.ErrBadConn
	closed bool // the driver has closed it
	line   int  // written at every call, so that the race detector sees two at once
}

type fakeLock struct {
	key          string
	shared, xact bool
}

// A fakeResult is what a text returned, one set per statement.
type fakeResult struct {
	sets     []fakeSet
	failAt   int // with rowErr: how many rows are read before it
	rowErr   error
	closeErr error
}

type fakeSet struct {
	cols []string
	rows [][]driver.Value
}

// fakeError is the server's own error type; it wraps errFakeCause.
type fakeError struct{ code string }

var (
	errFakeCause = errors.New("fake: the cause")
	errFakeGone  = fmt.Errorf("fake: the session is gone: %w", driver.ErrBadConn)
)

func (e *fakeError) Error() string { return "fake: error " + e.code }
func (e *fakeError) Unwrap() error { return errFakeCause }

func newFakeServer(tb testing.TB) *fakeServer {
	srv := &fakeServer{tb: tb, executed: map[string]int{}, faults: map[string][]fault{}, changed: make(chan struct{})}
	tb.Cleanup(srv.verify)
	return srv
}

// verify is the strict end: see fakeServer.
func (srv *fakeServer) verify() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for _, s := range srv.sessions {
		if !s.closed && !srv.lenient {
			srv.tb.Errorf("session %d was never closed", s.id)
		}
	}
	if srv.open != 0 && !srv.lenient {
		srv.tb.Errorf("%d statements or rows were never closed", srv.open)
	}
	for text, left := range srv.faults {
		if len(left) > 0 {
			srv.tb.Errorf("%d faults of %q were never reached", len(left), text)
		}
	}
	for _, key := range srv.orphans {
		if !srv.bare && !srv.lenient && !srv.isReported(key) {
			srv.tb.Errorf("lock %s was still held and nobody reported it", key)
		}
	}
}

// report is for WithReport.
func (srv *fakeServer) report(r Report) {
	srv.reportMu.Lock()
	defer srv.reportMu.Unlock()
	srv.reports = append(srv.reports, r)
}

// allReports are the reports so far, in order.
func (srv *fakeServer) allReports() []Report {
	srv.reportMu.Lock()
	defer srv.reportMu.Unlock()
	return slices.Clone(srv.reports)
}

func (srv *fakeServer) isReported(key string) bool {
	return slices.ContainsFunc(srv.allReports(), func(r Report) bool {
		return r.Kind == Unverified || r.Kind != MisplacedUnlock && slices.ContainsFunc(r.Holds, func(h Hold) bool { return h.Key == key })
	})
}

// kinds are the kinds of the reports so far, in order.
func (srv *fakeServer) kinds() string {
	var kinds []string
	for _, r := range srv.allReports() {
		kinds = append(kinds, r.Kind.String())
	}
	return strings.Join(kinds, " ")
}

func (srv *fakeServer) note(s *fakeSession, call, text string, args []driver.NamedValue) {
	s.line++
	if srv.quiet {
		return
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	line := fmt.Sprintf("%d %s", s.id, call)
	if text != "" {
		line += fmt.Sprintf(" %q", text)
	}
	if args != nil {
		line += " " + describe(args)
	}
	srv.calls = append(srv.calls, line)
}

func describe(args []driver.NamedValue) string {
	var all []string
	for _, a := range args {
		all = append(all, fmt.Sprintf("%d%s:%T(%v)", a.Ordinal, a.Name, a.Value, a.Value))
	}
	return "[" + strings.Join(all, " ") + "]"
}

// allCalls are the calls so far, in order.
func (srv *fakeServer) allCalls() []string {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return slices.Clone(srv.calls)
}

// own counts the statements of the guard's own that arrived.
func (srv *fakeServer) own() int {
	n := 0
	for _, c := range srv.allCalls() {
		if strings.Contains(c, strconv.Quote(pgProbe)) || strings.Contains(c, strconv.Quote(pgReset)) || strings.Contains(c, strconv.Quote(rollback)) {
			n++
		}
	}
	return n
}

func (srv *fakeServer) times(text string) int {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.executed[text]
}

// held says how many session locks live sessions hold.
func (srv *fakeServer) held() int {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	n := 0
	for _, s := range srv.sessions {
		n += len(s.locks)
	}
	return n
}

func (srv *fakeServer) session(id int) *fakeSession {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.sessions[id-1]
}

func (srv *fakeServer) newSession() *fakeSession {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	s := &fakeSession{srv: srv, id: len(srv.sessions) + 1, locks: map[fakeLock]int{}, told: map[fakeLock]bool{}}
	srv.sessions = append(srv.sessions, s)
	return s
}

func (srv *fakeServer) opened(n int) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.open += n
}

// end is the server's side of a session's end: its locks are free.
func (s *fakeSession) end() {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	s.ended = true
	s.freeLocked(func(fakeLock) bool { return true }, true)
}

// freeLocked frees those locks of s that which selects. They are orphans if no unlock of the user's own does it.
func (s *fakeSession) freeLocked(which func(fakeLock) bool, orphaned bool) {
	for l := range s.locks {
		if !which(l) {
			continue
		}
		if orphaned && s.told[l] && !s.bad && !l.xact {
			s.srv.orphans = append(s.srv.orphans, l.key)
		}
		delete(s.locks, l)
		delete(s.told, l)
	}
	close(s.srv.changed)
	s.srv.changed = make(chan struct{})
}

// run executes a text or lets it go wrong.
func (s *fakeSession) run(ctx context.Context, text string, args []driver.NamedValue) (*fakeResult, error) {
	s.line++
	for _, a := range args { // as pgx does
		if r, ok := a.Value.(fakeRewriter); ok {
			text = r.text
		}
	}
	do := func(ctx context.Context) (*fakeResult, error) { return s.execute(ctx, text, args) }
	f := s.srv.nextFault(text)
	if f == nil {
		f = none
	}
	s.taken = nil
	res, err := f(ctx, s, do)
	s.tell(err)
	return res, err
}

func (s *fakeSession) tell(err error) {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	s.bad = s.bad || errors.Is(err, driver.ErrBadConn)
	if err != nil {
		return
	}
	for _, l := range s.taken {
		s.told[l] = true
	}
}

func (s *fakeSession) execute(ctx context.Context, text string, args []driver.NamedValue) (*fakeResult, error) {
	s.srv.mu.Lock()
	s.srv.executed[text]++
	gone := s.ended || s.closed
	s.srv.mu.Unlock()
	if gone {
		return nil, errFakeGone
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.srv.quiet && !strings.Contains(text, "advisory") {
		return &fakeResult{sets: quietSets}, nil
	}
	res := &fakeResult{}
	for part := range strings.SplitSeq(text, ";") {
		sets, err := s.statement(ctx, strings.TrimSpace(part), text, args)
		if err != nil {
			return nil, err
		}
		res.sets = append(res.sets, sets...)
	}
	return res, nil
}

// quietSets is the answer where allocations are counted: regexp and fmt keep pools, which empty at random.
var quietSets = oneRow("n", int64(1))

var (
	fakeCall = regexp.MustCompile(`\b(pg_\w*advisory\w*|locks_unseen)\(([^)]*)\)`)
	fakeSets = regexp.MustCompile(`^SELECT sets\((\d)\)$`)
)

func (s *fakeSession) statement(ctx context.Context, q, text string, args []driver.NamedValue) ([]fakeSet, error) {
	switch {
	case strings.Contains(q, "pg_locks"):
		return s.pgLocks(), nil
	case fakeCall.MatchString(q):
		return s.lockCalls(ctx, q, text, args)
	case q == "BEGIN", q == "COMMIT", q == "ROLLBACK":
		s.setTx(q == "BEGIN")
		return nil, nil
	case q == "SELECT pg_backend_pid()":
		return oneRow("pg_backend_pid", int64(s.id)), nil
	case strings.HasPrefix(q, "SELECT echo("):
		return oneRow("args", describe(args)), nil
	case fakeSets.MatchString(q):
		var sets []fakeSet
		for i := range int64(q[len("SELECT sets(")] - '0') {
			sets = append(sets, oneRow(fmt.Sprint("set", i), i)...)
		}
		return sets, nil
	}
	if n, err := strconv.ParseInt(strings.TrimPrefix(q, "SELECT "), 10, 64); err == nil {
		return oneRow("n", n), nil
	}
	return nil, &fakeError{"syntax: " + q}
}

func oneRow(col string, v driver.Value) []fakeSet {
	return []fakeSet{{cols: []string{col}, rows: [][]driver.Value{{v}}}}
}

func (s *fakeSession) setTx(open bool) {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	s.tx = open
	if !open {
		s.freeLocked(func(l fakeLock) bool { return l.xact }, false)
	}
}

// pgLocks answers the probe as pg_locks would.
func (s *fakeSession) pgLocks() []fakeSet {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	set := fakeSet{cols: []string{"classid", "objid", "objsubid", "mode"}}
	for l := range s.locks {
		mode := "ExclusiveLock"
		if l.shared {
			mode = "ShareLock"
		}
		hi, lo, two := strings.Cut(l.key, ",")
		a, _ := strconv.ParseInt(hi, 10, 64)
		b, _ := strconv.ParseInt(lo, 10, 64)
		row := []driver.Value{int64(uint32(a >> 32)), int64(uint32(a)), int64(1), mode}
		if two {
			row = []driver.Value{int64(uint32(a)), int64(uint32(b)), int64(2), mode}
		}
		set.rows = append(set.rows, row)
	}
	return []fakeSet{set}
}

// lockCalls runs the lock calls of a statement, for as many rows as its end says.
func (s *fakeSession) lockCalls(ctx context.Context, q, text string, args []driver.NamedValue) ([]fakeSet, error) {
	set, rows := fakeSet{}, 1
	if strings.Contains(q, "generate_series(1, 3)") {
		rows = 3
	}
	for range rows {
		var row []driver.Value
		set.cols = nil
		for _, call := range fakeCall.FindAllStringSubmatch(q, -1) {
			v, err := s.lockCall(ctx, call[1], fakeKey(call[2], args), text == pgReset)
			if err != nil {
				return nil, err
			}
			row, set.cols = append(row, v), append(set.cols, call[1])
		}
		set.rows = append(set.rows, row)
	}
	if strings.HasSuffix(q, " OFFSET 1") {
		set.rows = nil
	}
	return []fakeSet{set}, nil
}

// fakeKey is the key that a call's arguments spell; "" is NULL.
func fakeKey(spelled string, args []driver.NamedValue) string {
	parts := strings.Split(spelled, ",")
	for i, p := range parts {
		parts[i] = strings.TrimSpace(p)
		if n, err := strconv.Atoi(strings.TrimPrefix(parts[i], "$")); err == nil && strings.HasPrefix(parts[i], "$") {
			if n > len(args) || args[n-1].Value == nil {
				return ""
			}
			parts[i] = fmt.Sprint(args[n-1].Value)
		}
		if parts[i] == "NULL" {
			return ""
		}
	}
	return strings.Join(parts, ",")
}

// lockCall is one call of a lock function.
func (s *fakeSession) lockCall(ctx context.Context, name, key string, byGuard bool) (driver.Value, error) {
	l := fakeLock{key: key, shared: strings.HasSuffix(name, "_shared"), xact: strings.Contains(name, "_xact_")}
	try := strings.Contains(name, "_try_")
	switch {
	case name == "pg_advisory_unlock_all":
		s.srv.mu.Lock()
		defer s.srv.mu.Unlock()
		s.freeLocked(func(l fakeLock) bool { return !l.xact }, byGuard)
		return "", nil
	case key == "": // the functions are STRICT
		return nil, nil
	case strings.Contains(name, "_unlock"):
		return s.unlock(l), nil
	}
	for {
		granted, changed := s.grant(l)
		switch {
		case try:
			return granted, nil
		case granted:
			return "", nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *fakeSession) unlock(l fakeLock) bool {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	if s.locks[l] == 0 {
		return false
	}
	if s.locks[l]--; s.locks[l] == 0 {
		s.freeLocked(func(k fakeLock) bool { return k == l }, false)
	}
	return true
}

// grant takes l if no other session is in the way. A transaction lock outside of a transaction is gone at once.
func (s *fakeSession) grant(l fakeLock) (bool, <-chan struct{}) {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	for _, other := range s.srv.sessions {
		for k := range other.locks {
			if other != s && k.key == l.key && !(k.shared && l.shared) {
				return false, s.srv.changed
			}
		}
	}
	if !l.xact || s.tx {
		s.locks[l]++
		s.taken = append(s.taken, l)
	}
	return true, nil
}
