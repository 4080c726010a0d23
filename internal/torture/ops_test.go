package torture

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"slices"
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

// An operation tells the witness how it ended.
type operation func(*task, context.Context)

// A list has an operation as often as its weight says.
var (
	mysqlOperations = slices.Concat(
		slices.Repeat([]operation{func(t *task, ctx context.Context) { t.try(ctx, "try", t.shared) }}, 20),
		slices.Repeat([]operation{func(t *task, ctx context.Context) { t.acquire(ctx, "acquire", t.shared) }}, 20),
		slices.Repeat([]operation{(*task).run}, 15),
		slices.Repeat([]operation{func(t *task, ctx context.Context) { t.try(ctx, "try dedicated", t.dedicated) }}, 10),
		slices.Repeat([]operation{func(t *task, ctx context.Context) { t.acquire(ctx, "acquire dedicated", t.dedicated) }}, 10),
		slices.Repeat([]operation{(*task).once}, 20),
		slices.Repeat([]operation{(*task).leak}, 4),
		slices.Repeat([]operation{(*task).command}, 1),
	)
	postgresOperations = slices.Concat(mysqlOperations,
		slices.Repeat([]operation{(*task).exclusive}, 10),
		slices.Repeat([]operation{(*task).inTx}, 10),
		slices.Repeat([]operation{func(t *task, ctx context.Context) {
			t.Shared = true
			t.acquire(ctx, "acquire shared", t.readers)
		}}, 10),
	)
)

// one does something at random.
func (w *worker) one(r *rand.Rand) {
	k := "k" + strconv.Itoa(r.IntN(keys))
	t := &task{worker: w, r: r, event: event{Key: k, Bound: promised}}
	ctx, cancel := context.WithTimeout(context.Background(), t.patience())
	defer cancel()
	operations := mysqlOperations
	if w.postgres {
		operations = postgresOperations
	}
	operations[r.IntN(len(operations))](t, ctx)
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
	t.Token = lock.Token()
	t.section(lock.Context())
	t.end(lock.Release())
}

// run has jobs that fail and panic, and callers that cancel.
func (t *task) run(ctx context.Context) {
	t.Op = "run"
	defer t.survive()
	ran, err := sqllock.Run(ctx, t.shared, sqllock.Name(t.Key), t.job)
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
	switch {
	case !ran && err == nil:
		err = sqllock.ErrHeld
	case err == errJob: //nolint:errorlint // the very one
		err = errors.New("rolled back: nobody knows whether it was held to the end")
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

func (t *task) section(ctx context.Context) { t.work(ctx, t.length()) }

// length is mostly short.
func (t *task) length() time.Duration {
	length := time.Duration(t.r.IntN(20_000)) * time.Microsecond
	switch t.r.IntN(60) {
	case 0, 1, 2:
		length *= 60 // a fault comes in the middle
	case 3:
		length *= 300 // one who is not told goes on for longer than the bound
	}
	return length
}

// work is what a lock protects. It tells the witness that it has the key, and until when at least.
func (t *task) work(ctx context.Context, length time.Duration) {
	t.Section = t.sections.Add(1)
	t.note("enter", time.Now())
	over := time.NewTimer(length)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	case <-t.stopping:
	}
	if t.Token != 0 { // even though it may have been told: that is what a fence is for
		t.Fenced = !t.fenced(t.Key, t.Token)
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
	case t.Section == 0 && err == nil:
		t.finish(done)
	case t.Section == 0 && errors.Is(err, sqllock.ErrHeld):
		t.finish(held)
	case t.Section == 0:
		t.Error = err.Error()
		t.finish(failed)
	case err == nil, err == errJob: //nolint:errorlint // the very one: Run joins what the release returned
		t.finish(kept)
	default:
		t.Error = err.Error()
		t.finish(lost)
	}
}
