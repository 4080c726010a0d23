package sqllock

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A request is one thing that a pin is asked to do with a grant.
type request struct {
	op    requestOp
	grant *grant
	said  said       // what the server answered, in a batch
	err   error      // what to tell the requester
	reply chan error // buffered
	state atomic.Int32
}

// The states of a request: only one thing ever happens to one that is open.
const (
	open     int32 = iota
	answered       // by the pin
	givenUp        // by the requester: the pin ends the grant's turn when it is done with it
	moot           // by the requester, because nothing is served any more
)

type requestOp uint8

const (
	opTry requestOp = iota
	opWait
	opRelease
)

// said is a server's answer to one of many calls.
type said uint8

const (
	saidNothing said = iota
	saidNo
	saidYes
)

var requests = sync.Pool{New: func() any { return &request{reply: make(chan error, 1)} }}

func newRequest(op requestOp, g *grant) *request {
	r := requests.Get().(*request)
	r.op, r.grant, r.said, r.err = op, g, saidNothing, nil
	r.state.Store(open)
	return r
}

// end is how the requester, who no longer waits, and the pin, which answers, decide: only the first is told true.
func (r *request) end(how int32) bool { return r.state.CompareAndSwap(open, how) }

// recycle is called by the requester who has got the reply.
func (r *request) recycle() {
	r.grant, r.err = nil, nil
	requests.Put(r)
}

// A requestQueue keeps what comes while a pin's session is busy: that will go to the server together.
type requestQueue struct {
	ready chan struct{} // has room for one: there is something

	mu    sync.Mutex
	room  sync.Cond
	items []*request // guarded by mu
	ended bool       // guarded by mu
}

const (
	maxQueued = 8192 // then, requesters are kept waiting
	maxBatch  = 512
)

func newRequestQueue() *requestQueue {
	q := &requestQueue{ready: make(chan struct{}, 1)}
	q.room.L = &q.mu
	return q
}

// put waits for room, at most for as long as the session takes to answer. It returns false if nothing is served any more.
// One who will serve alone what is queued does not wait, and wakes nobody.
func (q *requestQueue) put(r *request, alone bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !alone && len(q.items) >= maxQueued && !q.ended {
		q.room.Wait()
	}
	return q.push(r, !alone)
}

// undo has a grant released that came too late. It never waits.
func (q *requestQueue) undo(g *grant) bool {
	r := newRequest(opRelease, g)
	r.end(givenUp) // nobody waits for the answer
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.push(r, true)
}

func (q *requestQueue) push(r *request, signal bool) bool {
	if q.ended {
		return false
	}
	q.items = append(q.items, r)
	if signal {
		q.signal()
	}
	return true
}

func (q *requestQueue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take moves the oldest requests to batch, which it empties first.
func (q *requestQueue) take(batch []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.items), maxBatch)
	batch = append(batch[:0], q.items[:n]...)
	left := copy(q.items, q.items[n:])
	clear(q.items[left:])
	q.items = q.items[:left]
	if left > 0 {
		q.signal()
	}
	q.room.Broadcast()
	return batch
}

// gather lets those who were just answered ask for more, until half of them have or no more come: the others do so while
// the server is at it.
func (q *requestQueue) gather(answered int) {
	for before, now := -1, q.len(); now > before && now < answered/2; now = q.len() {
		before = now
		runtime.Gosched()
	}
}

func (q *requestQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// end lets nothing more in, and returns what is left.
func (q *requestQueue) end() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := q.items
	q.items, q.ended = nil, true
	q.room.Broadcast()
	return left
}
