package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/sqllock/sqllock"
)

// A LeadOption changes how [Lead] works. An impossible value is Lead's error.
type LeadOption interface{ applyLead(*leadConfig) error }

type leadOption func(*leadConfig) error

func (f leadOption) applyLead(c *leadConfig) error { return f(c) }

type leadConfig struct {
	stepUp   time.Duration
	campaign time.Duration
}

// WithStepUpDelay sets how long a newcomer waits between getting the lock and leading. The default is the locker's loss
// bound (LossBound, 20 seconds with the default keepalive): by then a former leader whose session has ended has been
// told, also over a network that has gone silent. A leader that gave up in good order is waited out, too, because the
// lock does not tell the difference. 0 leads at once: two leaders then overlap for as long as the former one's loss
// takes to be told. A shorter [sqllock.WithKeepalive] shortens the default.
func WithStepUpDelay(d time.Duration) LeadOption {
	return leadOption(func(c *leadConfig) error {
		if d < 0 {
			return fmt.Errorf("jobs: WithStepUpDelay(%v): must not be negative", d)
		}
		c.stepUp = d
		return nil
	})
}

// DefaultCampaign is how often a [Lead] that does not lead tries to.
const DefaultCampaign = time.Second

// WithCampaign sets how often a Lead that does not lead tries to; the default is [DefaultCampaign]. Each pause is between
// half and one and a half times as long, so that candidates do not move in step.
func WithCampaign(every time.Duration) LeadOption {
	return leadOption(func(c *leadConfig) error {
		if every <= 0 {
			return fmt.Errorf("jobs: WithCampaign(%v): must be positive", every)
		}
		c.campaign = every
		return nil
	})
}

// Lead campaigns for key until it holds it, and runs lead while it does. It returns
//
//   - nil when lead returns nil, and lead's error when it returns one: the lock is released first;
//   - ctx's error when ctx ends while Lead does not lead. When it ends while lead runs, Lead waits for lead, and returns
//     what lead returns;
//   - [sqllock.ErrPoolTooSmall], at once: campaigning would not help. Other errors of the server are logged, and Lead goes on
//     campaigning: a standby may become the primary.
//
// When the lock is lost, the context of lead ends, with the cause [sqllock.ErrLost]. Lead waits until lead has returned,
// whatever it returns, and campaigns again. It never campaigns, or returns, while lead runs. A panic of lead passes
// through after the release.
//
// A leader on a server that becomes read-only, or a standby, loses the lock within the locker's loss bound.
//
// That two lead at once cannot be ruled out: a server frees the lock of a session that has ended before the holder
// hears of it. What holds is that each of them but the newest has a context that ends within the loss bound of its locker,
// and that a newcomer waits that long by default: see [WithStepUpDelay]. So two overlap only while the older one does not
// heed its context. Fence what must not happen twice: with [sqllock.WithToken], or by a [Ledger].
//
// The locker is [sqllock.NewPostgres] or [sqllock.NewMySQL]. What OnConn returns does not notice a loss, and cannot lead.
func Lead(ctx context.Context, l sqllock.Locker, key sqllock.Key, lead func(ctx context.Context) error, opts ...LeadOption) error {
	c := leadConfig{campaign: DefaultCampaign}
	if bounded, ok := l.(interface{ LossBound() time.Duration }); ok {
		c.stepUp = bounded.LossBound()
	}
	for _, o := range opts {
		if o != nil {
			if err := o.applyLead(&c); err != nil {
				return err
			}
		}
	}
	for {
		lock, err := campaign(ctx, l, key, c.campaign)
		if err != nil {
			return err
		}
		again, err := term(ctx, lock, c.stepUp, lead)
		if !again {
			return err
		}
	}
}

// campaign tries until it holds key.
func campaign(ctx context.Context, l sqllock.Locker, key sqllock.Key, every time.Duration) (*sqllock.Lock, error) {
	said := ""
	for {
		lock, err := l.TryAcquire(ctx, key)
		switch {
		case err == nil:
			return lock, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, sqllock.ErrPoolTooSmall):
			return nil, err
		case errors.Is(err, sqllock.ErrHeld):
			said = ""
		case err.Error() != said: // once
			said = err.Error()
			slog.WarnContext(ctx, "jobs: Lead cannot campaign, and tries again", "key", key.String(), "err", err)
		}
		if !pause(ctx, every/2+rand.N(every), nil) {
			return nil, ctx.Err()
		}
	}
}

// pause waits, unless ctx ends or the other channel is closed before.
func pause(ctx context.Context, d time.Duration, other <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-other:
	}
	return false
}

// term is the time for which one lock is held. It says whether to campaign again.
func term(ctx context.Context, lock *sqllock.Lock, stepUp time.Duration, lead func(context.Context) error) (again bool, err error) {
	defer func() {
		if e := lock.Release(); !again && err == nil && !errors.Is(e, sqllock.ErrLost) {
			err = e
		}
	}()
	if !pause(ctx, stepUp, lock.Context().Done()) {
		return ctx.Err() == nil, ctx.Err()
	}
	leadCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	stop := context.AfterFunc(lock.Context(), func() { cancel(context.Cause(lock.Context())) })
	defer stop()
	err = lead(leadCtx)
	if lock.Context().Err() != nil && ctx.Err() == nil {
		return true, nil // lost
	}
	return false, err
}
