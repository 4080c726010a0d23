package torture

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs"
)

// lead campaigns and leads until ctx ends. A leader is told before the next one begins: that is what its step-up delay
// is for.
func (w *worker) lead(ctx context.Context, r *rand.Rand) {
	quiet := jobs.WithLeadReport(func(error) {})
	for ctx.Err() == nil {
		t := &task{worker: w, r: r, event: event{Op: "lead", Key: "leader", Bound: promised}}
		err := jobs.Lead(ctx, w.shared, sqllock.Name(t.Key), func(ctx context.Context) error {
			if t.Section != 0 { // the last term has ended with a loss, or there would not be another
				t.finish(lost)
				t.Result, t.Told = "", false
			}
			t.work(ctx, time.Duration(r.Int64N(4*int64(silence))))
			return nil
		}, quiet, jobs.WithCampaign(50*time.Millisecond), jobs.WithStepUpDelay(promised))
		t.end(err)
		t.think()
	}
}
