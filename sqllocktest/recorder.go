package sqllocktest

import (
	"sync"
	"time"

	"github.com/sqllock/sqllock"
)

// awaitLimit is how long Await waits.
const awaitLimit = 10 * time.Second

// A Recorder keeps reports, for a test that expects one:
//
//	rec := sqllocktest.NewRecorder()
//	db := sqllocktest.Open(t, "pgx", dsn, sqllock.WithReport(rec.Record))
//	...
//	leak := rec.Await(t, sqllock.Leak)
//
// All its methods are safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	reports []sqllock.Report
	awaited []bool        // one for each report: an Await has returned it
	more    chan struct{} // closed when the next report arrives
}

// NewRecorder returns a Recorder without reports.
func NewRecorder() *Recorder { return &Recorder{more: make(chan struct{})} }

// Record keeps a report. It is meant for [sqllock.WithReport].
func (r *Recorder) Record(report sqllock.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports, r.awaited = append(r.reports, report), append(r.awaited, false)
	close(r.more)
	r.more = make(chan struct{})
}

// Reports returns all reports so far, in the order in which they came.
func (r *Recorder) Reports() []sqllock.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]sqllock.Report(nil), r.reports...)
}

// Await returns the oldest report of a kind that no Await has returned before. It blocks until there is one, for ten
// seconds at most: then it fails t and returns the zero Report.
func (r *Recorder) Await(t TestingT, kind sqllock.Kind) sqllock.Report {
	t.Helper()
	limit := time.NewTimer(awaitLimit)
	defer limit.Stop()
	for {
		report, found, more := r.next(kind)
		if found {
			return report
		}
		select {
		case <-more:
		case <-limit.C:
			t.Errorf("sqllocktest: no report of kind %v within %v; there are %v", kind, awaitLimit, r.Reports())
			return sqllock.Report{}
		}
	}
}

// next takes the next report of a kind, or returns what is closed when another report arrives.
func (r *Recorder) next(kind sqllock.Kind) (report sqllock.Report, found bool, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, report := range r.reports {
		if report.Kind == kind && !r.awaited[i] {
			r.awaited[i] = true
			return report, true, nil
		}
	}
	return sqllock.Report{}, false, r.more
}
