package jobs_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
)

// Many jobs are due at once in three replicas, for the first time: each is run once, and none meets a deadlock.
func TestManyJobs(t *testing.T) {
	t.Parallel()
	const many, workers = 1000, 4
	onEach(t, func(t *testing.T, s *testbed.Server) {
		var ran [many]atomic.Int32
		var wg sync.WaitGroup
		start := time.Now()
		for range 3 {
			r := open(t, s)
			r.db.SetMaxOpenConns(workers + 2)
			var next atomic.Int64
			for range workers {
				wg.Go(func() {
					for i := next.Add(1) - 1; i < many; i = next.Add(1) - 1 {
						_, err := r.Once(t.Context(), fmt.Sprintf("job %03d", i), slot0, func(context.Context, *jobs.Run) error {
							ran[i].Add(1)
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		t.Logf("%d jobs in %v", many, time.Since(start))
		for i := range ran {
			if n := ran[i].Load(); n != 1 {
				t.Errorf("job %d: run %d times", i, n)
			}
		}
	})
}
