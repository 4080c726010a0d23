package sqllock

import (
	"database/sql/driver"
	"io"
	"runtime"
	"time"
)

// An observation follows one statement that may concern session locks, from before it is sent until its result
// is known. Until then, and for ever if the result proves nothing, the session counts as unverified. A nil
// observation observes nothing.
type observation struct {
	c     *conn
	s     statement
	key   lockKey
	keyed bool // key was read from the text and the arguments
	text  string
	stack []uintptr
	since time.Time

	rows  int    // rows read
	value answer // of the first row's only column
	err   error  // of a row
	over  bool
}

// An answer is what a lock function returned.
type answer uint8

const (
	unseen answer = iota // no row was read, or not through this call
	null
	no
	yes
)

const stackDepth = 24

func (c *conn) observe(s statement, text string, args []driver.NamedValue) *observation {
	o := &observation{c: c, s: s, text: text, since: time.Now()}
	if s.nkeys > 0 {
		o.key, o.keyed = keyOf(c.pool.cfg.dialect, s, args)
	}
	c.table.begin()
	return o
}

// sent takes the stack of a statement that the driver has sent: a release needs one only if there is something to
// report, and what the driver skipped comes again.
func (o *observation) sent(err error) {
	if o != nil && err != driver.ErrSkip && o.s.verb != verbRelease && o.s.verb != verbReleaseAll {
		o.where()
	}
}

// where returns the stack of the caller: of the one who sent the statement, or who closes a release's rows.
func (o *observation) where() []uintptr {
	if o.stack == nil && o.c != nil && o.c.pool.cfg.stacks {
		var pcs [stackDepth]uintptr
		n := runtime.Callers(2, pcs[:])
		o.stack = append(o.stack, pcs[:n]...)
	}
	return o.stack
}

// queried says that the query was sent, or why it was not answered. The rows tell the rest.
func (o *observation) queried(err error) {
	if o != nil && err != nil {
		o.finish(err, false)
	}
}

// executed says what came of a statement whose rows, if it has any, nobody sees.
func (o *observation) executed(err error) {
	if o != nil {
		o.sent(err)
		o.finish(err, true)
	}
}

func (o *observation) row(dest []driver.Value, err error) {
	switch {
	case o == nil || err == io.EOF:
	case err != nil:
		o.err = err
	default:
		if o.rows++; o.rows == 1 && len(dest) == 1 {
			o.value = answerOf(dest[0])
		}
	}
}

func (o *observation) closed(err error) {
	if o == nil {
		return
	}
	if err == nil {
		err = o.err
	}
	o.finish(err, false)
}

// finish brings the result to the hold table, once.
func (o *observation) finish(err error, exec bool) {
	if o.over {
		return
	}
	o.over = true
	if err == driver.ErrSkip { // the driver did nothing: database/sql, which compares the same way, prepares instead
		o.c.table.cancel()
		return
	}
	o.c.noteErr(err)
	r := o.c.table.finish(o, err, exec)
	o.c.watched = len(o.c.pool.cfg.functions) > 0 || o.c.table.marked()
	if r != nil {
		o.c.pool.misplaced(o.c, o.key, r)
		o.c.pool.deliver(*r)
	}
}

// answerOf reads what a lock function returned, as any driver returns it: PostgreSQL's void is "", its bool is
// true or "t"; MySQL's integer comes as int64, uint64 or text.
func answerOf(v driver.Value) answer {
	switch v := v.(type) {
	case nil:
		return null
	case bool:
		return answerIf(v)
	case int64:
		return answerIf(v != 0)
	case uint64:
		return answerIf(v != 0)
	case []byte:
		return answerIf(isYes(string(v)))
	case string:
		return answerIf(isYes(v))
	}
	return unseen
}

func answerIf(b bool) answer {
	if b {
		return yes
	}
	return no
}

func isYes(s string) bool { return s != "0" && s != "f" && s != "false" }
