package torture

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs"
)

const (
	keys     = 4
	attempts = 4
	slotEach = 50 * time.Millisecond
)

var errJob = errors.New("the job fails")

// A task is one operation of one loop.
type task struct {
	*worker
	event
	r *rand.Rand
}

// one does something at random.
func (w *worker) one(r *rand.Rand) {
	k := "k" + strconv.Itoa(r.IntN(keys))
	t := &task{worker: w, r: r, event: event{Key: k, Bound: promised}}
	ctx, cancel := context.WithTimeout(context.Background(), t.patience())
	defer cancel()
	switch n := r.IntN(100); {
	case n < 20:
		t.try(ctx, "try", w.shared)
	case n < 40:
		t.acquire(ctx, "acquire", w.shared)
	case n < 55:
		t.run(ctx, "run", w.shared)
	case n < 65:
		t.try(ctx, "try dedicated", w.dedicated)
	case n < 75:
		t.acquire(ctx, "acquire dedicated", w.dedicated)
	case n < 85 && w.postgres:
		t.exclusive(ctx)
	case n < 92 && w.postgres:
		t.Shared = true
		t.acquire(ctx, "acquire shared", w.readers)
	default:
		t.once(ctx)
	}
	t.think()
}

// patience is mostly long; sometimes the caller cancels early.
func (t *task) patience() time.Duration {
	if t.r.IntN(4) == 0 {
		return time.Duration(t.r.IntN(30_000)) * time.Microsecond
	}
	return time.Duration(500+t.r.IntN(1000)) * time.Millisecond
}

// think makes room for other processes: a loop of refusals, or of failures while the server is away, would only heat
// the machine.
func (t *task) think() {
	most := 10 * time.Millisecond
	if t.Result == failed {
		most *= 10
	}
	time.Sleep(time.Duration(t.r.Int64N(int64(most))))
}

func (t *task) try(ctx context.Context, op string, l sqllock.Locker) {
	t.Op = op
	lock, err := l.TryAcquire(ctx, sqllock.Name(t.Key))
	t.hold(lock, err)
}

func (t *task) acquire(ctx context.Context, op string, l sqllock.Locker) {
	t.Op = op
	lock, err := l.Acquire(ctx, sqllock.Name(t.Key))
	t.hold(lock, err)
}

func (t *task) hold(lock *sqllock.Lock, err error) {
	if err != nil {
		t.end(err)
		return
	}
	t.section(lock.Context())
	t.end(lock.Release())
}

// run has jobs that fail and panic, and callers that cancel.
func (t *task) run(ctx context.Context, op string, l sqllock.Locker) {
	t.Op = op
	defer t.survive()
	ran, err := sqllock.Run(ctx, l, sqllock.Name(t.Key), t.job)
	if !ran && err == nil {
		err = sqllock.ErrHeld
	}
	t.end(err)
}

func (t *task) exclusive(ctx context.Context) {
	t.Op, t.Bound = "run exclusive", time.Hour // nobody watches a transaction: its end tells
	defer t.survive()
	ran, err := sqllock.RunExclusive(ctx, t.db, sqllock.Name(t.Key), func(tx *sql.Tx) error {
		err := t.job(ctx)
		if err == nil { // the transaction is the proof: a job that writes nothing would not know
			_, err = tx.ExecContext(ctx, "SELECT 1")
		}
		return err
	})
	if !ran && err == nil {
		err = sqllock.ErrHeld
	}
	t.end(err)
}

// once competes with other workers for a slot of about now.
func (t *task) once(ctx context.Context) {
	t.Op, t.Job = "once", "job"+strconv.Itoa(t.r.IntN(2))
	slot := time.Now().Truncate(slotEach).Add(-time.Duration(t.r.IntN(8)) * slotEach)
	defer t.survive()
	t.Key = "ledger " + t.Job
	ran, err := t.ledger.Once(ctx, t.Job, slot, func(ctx context.Context, run *jobs.Run) error {
		t.Token = run.Token
		t.Slot = slot.UnixMicro()
		return t.job(ctx)
	})
	if !ran && err == nil {
		t.finish(skipped)
		return
	}
	t.end(err)
}

func (t *task) job(ctx context.Context) error {
	t.section(ctx)
	switch t.r.IntN(12) {
	case 0:
		return errJob
	case 1:
		panic(errJob)
	}
	return nil
}

// survive ends the operation of a job that has panicked: what its release returned is not known.
func (t *task) survive() {
	if p := recover(); p != nil {
		if p != errJob { //nolint:errorlint // the very one
			panic(p)
		}
		t.finish(lost)
	}
}

// section is what a lock protects. It writes down that it has the key, and until when at least.
func (t *task) section(ctx context.Context) {
	t.Section = t.sections.Add(1)
	t.note("enter", time.Now())
	length := time.Duration(t.r.IntN(20_000)) * time.Microsecond
	switch t.r.IntN(60) {
	case 0, 1, 2:
		length *= 60 // a fault comes in the middle
	case 3:
		length *= 300 // one who is not told goes on for longer than the bound
	}
	over := time.NewTimer(length)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	case <-t.stopping:
	}
	at := time.Now() // before the look: held until then if the end has not been told
	t.Told = ctx.Err() != nil
	t.note("leave", at)
}

func (t *task) note(kind string, at time.Time) {
	t.Kind, t.At = kind, at
	t.tell(t.event)
}

func (t *task) finish(result string) {
	t.Result = result
	t.note("end", time.Now())
}

// end writes down what the library said in the end.
func (t *task) end(err error) {
	switch {
	case t.Section == 0 && errors.Is(err, sqllock.ErrHeld):
		t.finish(held)
	case t.Section == 0:
		t.finish(failed)
	case err == nil, err == errJob: //nolint:errorlint // the very one: Run joins what the release returned
		t.finish(kept)
	default:
		t.Error = err.Error()
		t.finish(lost)
	}
}
