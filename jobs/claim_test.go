package jobs_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
	"github.com/sqllock/sqllock/jobs"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		a, b := open(t, s), open(t, s)
		for i, r := range []*replica{a, b} {
			if claimed, err := r.Claim(t.Context(), "j", slot0); claimed != (i == 0) || err != nil {
				t.Errorf("replica %d: %v, %v", i, claimed, err)
			}
		}
		a.do(t, "j", slot0, jobs.AlreadySucceeded, done)
		if _, err := s.Outside(t).ExecContext(t.Context(), "DROP TABLE job_runs"); err != nil {
			t.Fatal(err)
		}
		if claimed, err := b.Claim(t.Context(), "j", slot0); claimed || err == nil { // told apart from "already taken"
			t.Errorf("without a table: %v, %v", claimed, err)
		}
	})
}

func begin(t *testing.T, r *replica, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := r.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func TestClaimTx(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *testbed.Server) {
		r := open(t, s)
		tx := begin(t, r, sql.LevelReadCommitted)
		if claimed, err := r.ClaimTx(t.Context(), tx, "j", slot0); !claimed || err != nil {
			t.Fatalf("ClaimTx: %v, %v", claimed, err)
		}
		late := begin(t, r, sql.LevelReadCommitted)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		claimed, err := r.ClaimTx(ctx, late, "j", slot0)
		if isPostgres(s) { // does not wait
			if claimed || err != nil {
				t.Errorf("beside it: %v, %v", claimed, err)
			}
		} else if !errors.Is(err, context.DeadlineExceeded) { // waits
			t.Errorf("beside it: %v, %v", claimed, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		claimThenLose(t, r)
	})
}

// claimThenLose: a lost claim leaves the transaction usable.
func claimThenLose(t *testing.T, r *replica) {
	t.Helper()
	tx := begin(t, r, sql.LevelReadCommitted)
	if claimed, err := r.ClaimTx(t.Context(), tx, "j", slot0); !claimed || err != nil {
		t.Fatalf("after the rollback: %v, %v", claimed, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	tx = begin(t, r, sql.LevelReadCommitted)
	for i, slot := range []time.Time{slot0, slot0.Add(time.Hour)} {
		if claimed, err := r.ClaimTx(t.Context(), tx, "j", slot); claimed != (i == 1) || err != nil {
			t.Errorf("slot %d: %v, %v", i, claimed, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Errorf("the commit after a lost claim: %v", err)
	}
}

func TestClaimTxRefusesOldSnapshots(t *testing.T) {
	t.Parallel()
	r := open(t, testbed.Postgres(t).NewDatabase(t))
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		tx := begin(t, r, level)
		if claimed, err := r.ClaimTx(t.Context(), tx, "j", slot0); claimed || !errors.Is(err, sqllock.ErrUnsupported) {
			t.Errorf("%v: %v, %v", level, claimed, err)
		}
		if err := tx.Commit(); err != nil {
			t.Errorf("%v: the refusal aborted the transaction: %v", level, err)
		}
	}
}
