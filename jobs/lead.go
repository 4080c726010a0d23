package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sqllock/sqllock"
)

// Lead runs lead while it holds key, so that of all the replicas that call it one leads. It campaigns until it is elected:
// it tries the key, at random times around [WithCampaign]'s, and after it got it waits for [WithStepUpDelay].
//
//   - lead returns nil: Lead releases the key and returns nil; the other replicas go on to campaign.
//   - lead returns an error: Lead releases the key and returns the error.
//   - The lock is lost: lead's context is cancelled (its cause is [sqllock.ErrLost]), Lead waits for lead to return, whatever
//     it returns, and campaigns again.
//   - ctx ends: lead's context ends too, Lead waits for lead, and returns what lead returned, or ctx's error if it did not lead.
//
// Lead neither campaigns nor returns while lead runs. A panic of lead passes through after the release.
//
// Two leaders at once cannot be excluded by any lock: a killed session frees the lock before its holder can hear of it.
// What holds is that whoever leads beside the newcomer has had its context cancelled, if the step-up delay is not shorter than the
// time in which a loss is noticed. A lead that takes long to return after that needs a fence, see [Run.Token].
//
// A campaign survives errors, which are reported ([WithLeadReport]), except for [sqllock.ErrUnsupported] and
// [sqllock.ErrPoolTooSmall] before the first answer: that is a mistake in the program, and is returned.
func Lead(ctx context.Context, l sqllock.Locker, key sqllock.Key, lead func(ctx context.Context) error, opts ...LeadOption) error {
	c := campaign{l: l, key: key, lead: lead}
	if err := c.cfg.set(opts); err != nil {
		return err
	}
	for {
		lock, err := c.elect(ctx)
		if err != nil {
			return err
		}
		if over, err := c.term(ctx, lock); over {
			return err
		}
		if err := c.pause(ctx); err != nil { // let the others have a go
			return err
		}
	}
}

type campaign struct {
	l        sqllock.Locker
	key      sqllock.Key
	lead     func(ctx context.Context) error
	cfg      leadConfig
	answered bool // the server has been able to say who holds the key
}

// elect returns when this replica may lead.
func (c *campaign) elect(ctx context.Context) (*sqllock.Lock, error) {
	for {
		lock, err := c.l.TryAcquire(ctx, c.key)
		switch {
		case err == nil:
			c.answered = true
			if c.stepUp(ctx, lock) {
				return lock, nil
			}
		case errors.Is(err, sqllock.ErrHeld):
			c.answered = true
		case ctx.Err() != nil:
			return nil, err
		case !c.answered && (errors.Is(err, sqllock.ErrUnsupported) || errors.Is(err, sqllock.ErrPoolTooSmall)):
			return nil, err
		default:
			c.cfg.report(fmt.Errorf("jobs: campaign for %s: %w", c.key, err))
		}
		if err := c.pause(ctx); err != nil {
			return nil, err
		}
	}
}

// pause waits between a half and one and a half of the interval, so that replicas do not try in step.
func (c *campaign) pause(ctx context.Context) error {
	return sleep(ctx, c.cfg.every/2+rand.N(c.cfg.every)) //nolint:gosec // no secret
}

// sleep waits for d, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("jobs: lead: %w", context.Cause(ctx))
	}
}

// stepUp waits until the one before must know that it has lost the lock. If this one is lost meanwhile, it is released.
func (c *campaign) stepUp(ctx context.Context, lock *sqllock.Lock) bool {
	ctx, cancel := under(ctx, lock)
	defer cancel()
	err := sleep(ctx, c.cfg.delay)
	if err == nil {
		err = c.cfg.check(ctx)
	}
	if err == nil {
		return true
	}
	c.cfg.report(errors.Join(fmt.Errorf("jobs: elected for %s, and does not lead: %w", c.key, err), lock.Release()))
	return false
}

// term is one time of leading. It says whether the campaign is over, too.
func (c *campaign) term(ctx context.Context, lock *sqllock.Lock) (over bool, err error) {
	held, cancel := under(ctx, lock)
	defer cancel()
	leading, depose := context.WithCancelCause(held)
	defer depose(sqllock.ErrReleased)
	stop := c.cfg.watch(leading, depose)
	defer lock.Release() // if lead panics
	err = c.lead(leading)
	cause := stop()
	lost := lock.Release()
	if cause == nil && lost == nil {
		return true, err
	}
	c.cfg.report(fmt.Errorf("jobs: leading for %s ended: %w", c.key, errors.Join(cause, lost, err)))
	return ctx.Err() != nil, errors.Join(lost, err)
}
