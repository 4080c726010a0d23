package jobs

import (
	"errors"
	"fmt"
)

// Why a slot is not run. [Ledger.Once] returns one of the causes below or [sqllock.ErrHeld], and each of these errors is
// ErrSkipped, too: use [errors.Is].
var (
	// ErrSkipped says that the job was not run now, and why in its text. Nothing failed: with several replicas, all
	// but one are told so for every slot. Only ErrUsedUp wants a person.
	ErrSkipped = errors.New("jobs: not run")
	// ErrSucceeded says that the slot is done: it has succeeded, or somebody has claimed it ([Ledger.Claim], or an
	// INSERT of another program's), which leaves no outcome to know.
	ErrSucceeded = errors.New("jobs: the slot is done")
	// ErrUsedUp says that the slot failed in all of its attempts: see [WithAttempts]. It is not run again.
	ErrUsedUp = errors.New("jobs: the attempts are used up")
	// ErrNotYet says that the slot failed a short time ago: see [WithRetryDelay].
	ErrNotYet = errors.New("jobs: it failed just now, the next attempt is not due yet")
)

// ErrTable says that the table cannot be used for this; its text names the reason and the remedy.
var ErrTable = errors.New("jobs: the table does not fit")

func skipped(job, slot string, cause error) error {
	return fmt.Errorf("%w: %s at %s: %w", ErrSkipped, job, slot, cause)
}
