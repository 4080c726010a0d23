package jobs

import (
	"context"
	"database/sql"
	"time"

	"github.com/sqllock/sqllock"
)

// Claim takes a slot with its row alone, for good, and says whether it did: false, and no error, if the slot has a row already.
// There is no lock, no second attempt, and no note of the end: after a crash the slot stays undone. It is one statement,
// committed at once, so that a loser never waits for the winner's job. It works on the article's two-column table as it is.
//
// Do not mix it with ClaimTx for one slot: it would wait for that transaction.
func (l *Ledger) Claim(ctx context.Context, job string, slot time.Time) (claimed bool, err error) {
	t, err := l.readyFor(ctx, l.db, job, slot)
	if err != nil {
		return false, err
	}
	claimed, err = l.claim(ctx, l.db, t, job, slot)
	return claimed, at(job, slot, err)
}

// ClaimTx is [Ledger.Claim] in the caller's transaction, so that the claim and what the job writes are committed together or not
// at all. false means that another transaction has claimed the slot, or is about to: that one may still be rolled back.
//
// On PostgreSQL it first takes a transaction lock without waiting, so that it never blocks behind another ClaimTx, and a lost
// claim does not abort the transaction; above READ COMMITTED it is [sqllock.ErrUnsupported]. On MySQL and MariaDB it waits
// for another transaction that has claimed the slot to end, or for innodb_lock_wait_timeout (50 s), which is an error.
func (l *Ledger) ClaimTx(ctx context.Context, tx *sql.Tx, job string, slot time.Time) (claimed bool, err error) {
	t, err := l.readyFor(ctx, tx, job, slot)
	if err != nil {
		return false, err
	}
	if t.postgres {
		free, err := sqllock.TryLockTx(ctx, tx, (t.space + "/claim").Name(job+" "+t.key(slot)))
		if err != nil || !free {
			return false, at(job, slot, err)
		}
	}
	claimed, err = l.claim(ctx, tx, t, job, slot)
	return claimed, at(job, slot, err)
}

func (l *Ledger) claim(ctx context.Context, q querier, t *table, job string, slot time.Time) (bool, error) {
	columns, values, args := "{job}, {key}", "?, ?", []any{job, t.key(slot)}
	if t.daily && !t.bare {
		columns, values, args = columns+", slot", values+", ?", append(args, exact(slot))
	}
	if !t.bare {
		columns, values, args = columns+", host, started, finished, attempt", values+", ?, {now}, {now}, 1", append(args, l.cfg.host)
	}
	return t.unless(ctx, q, "INSERT INTO {table} ("+columns+") VALUES ("+values+")", args...)
}
