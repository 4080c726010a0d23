package sqllocktest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/sqllocktest"
)

func TestRecorderTakesReportsFromTheTest(t *testing.T) {
	fake, rec := &fakeT{}, sqllocktest.NewRecorder()
	db := sqllocktest.Guard(fake, mockConnector(t), postgres, sqllock.WithReport(rec.Record))
	ask(t, db, "SELECT pg_try_advisory_lock(1)")
	if leak := rec.Await(fake, sqllock.Leak); len(leak.Holds) != 1 || leak.Holds[0].Key != "1" {
		t.Errorf("got %v", leak)
	}
	fake.end()
	if len(fake.failures) > 0 {
		t.Errorf("failures: %q", fake.failures)
	}
}

func TestAwaitReturnsEachReportOnce(t *testing.T) {
	rec := sqllocktest.NewRecorder()
	for _, r := range []sqllock.Report{{Kind: sqllock.Leak, Key: "a"}, {Kind: sqllock.Unverified, Key: "b"}, {Kind: sqllock.Leak, Key: "c"}} {
		rec.Record(r)
	}
	for _, want := range []struct {
		kind sqllock.Kind
		key  string
	}{{sqllock.Unverified, "b"}, {sqllock.Leak, "a"}, {sqllock.Leak, "c"}} {
		if got := rec.Await(t, want.kind); got.Key != want.key {
			t.Errorf("%v: got %q, want %q", want.kind, got.Key, want.key)
		}
	}
	if n := len(rec.Reports()); n != 3 {
		t.Errorf("%d reports are kept, want 3", n)
	}
}

func TestAwaitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := sqllocktest.NewRecorder()
		time.AfterFunc(time.Second, func() { rec.Record(sqllock.Report{Kind: sqllock.Unverified}) })
		time.AfterFunc(9*time.Second, func() { rec.Record(sqllock.Report{Kind: sqllock.Leak, Key: "late"}) })
		if got := rec.Await(t, sqllock.Leak); got.Key != "late" {
			t.Errorf("got %v", got)
		}
	})
}

func TestAwaitGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, rec := &fakeT{}, sqllocktest.NewRecorder()
		rec.Record(sqllock.Report{Kind: sqllock.Unverified, Statement: "what there is"})
		start := time.Now()
		if got := rec.Await(fake, sqllock.Leak); got.Kind != 0 || time.Since(start) != 10*time.Second {
			t.Errorf("got %v after %v", got, time.Since(start))
		}
		if len(fake.failures) != 1 || !strings.Contains(fake.failures[0], "what there is") {
			t.Errorf("failures: %q", fake.failures)
		}
	})
}
