package jobs_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs"
)

func TestClaim(t *testing.T) {
	eachStack(t, func(s *site) {
		replicas := []*replica{s.replica(), s.replica(), s.replica()}
		var won atomic.Int64
		var all sync.WaitGroup
		for _, r := range replicas {
			all.Go(func() {
				for h := range 20 {
					claimed, err := r.Claim(s.ctx(), s.job, midnight.Add(time.Duration(h)*time.Hour))
					if err != nil {
						s.Error(err)
					}
					if claimed {
						won.Add(1)
					}
				}
			})
		}
		all.Wait()
		if won.Load() != 20 {
			s.Errorf("%d claims of 20 slots", won.Load())
		}
		ran, err := replicas[0].Once(s.ctx(), s.job, midnight, never(s))
		s.wantSkipped(ran, err, jobs.ErrSucceeded)
		s.wantRan(replicas[0].Once(s.ctx(), s.job, midnight.AddDate(0, 0, 2), nothing))
		if claimed, err := replicas[1].Claim(s.ctx(), s.job, midnight.AddDate(0, 0, 2)); claimed || err != nil {
			s.Errorf("Claim of what Once has run: %v, %v", claimed, err)
		}
		if r := s.record(replicas[0], midnight); r.Status != jobs.Claimed || r.Host == "" || r.Started.IsZero() {
			s.Errorf("%+v", r)
		}
	})
}

// Every error but a duplicate is one: "not claimed" would leave the slot out.
func TestClaimError(t *testing.T) {
	eachStack(t, func(s *site) {
		r := s.replica()
		if _, err := r.Claim(s.ctx(), s.job, midnight); err != nil {
			s.Fatal(err)
		}
		dead, cancel := context.WithCancel(s.Context())
		cancel()
		if claimed, err := r.Claim(dead, s.job, midnight); claimed || !errors.Is(err, context.Canceled) {
			s.Errorf("with a dead context: %v, %v", claimed, err)
		}
		s.exec("DROP TABLE job_runs")
		if claimed, err := r.Claim(s.ctx(), s.job, midnight); claimed || err == nil {
			s.Errorf("without a table: %v, %v", claimed, err)
		}
	})
}

func (s *site) beginTx(db *sql.DB, level sql.IsolationLevel) *sql.Tx {
	s.Helper()
	tx, err := db.BeginTx(s.Context(), &sql.TxOptions{Isolation: level})
	s.must(err)
	s.Cleanup(func() { tx.Rollback() })
	return tx
}

func TestClaimTx(t *testing.T) {
	eachStack(t, func(s *site) {
		a, b := s.replica(), s.replica()
		for i, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit, (*sql.Tx).Rollback} {
			tx := s.beginTx(a.db, sql.LevelReadCommitted)
			if claimed, err := a.ClaimTx(s.ctx(), tx, s.job, midnight); claimed != (i < 2) || err != nil {
				s.Errorf("ClaimTx %d: %v, %v", i, claimed, err)
			}
			if s.postgres() { // nobody waits for the open transaction
				if claimed, err := b.Claim(s.ctx(), s.job, midnight); claimed || err != nil {
					s.Errorf("Claim beside ClaimTx %d: %v, %v", i, claimed, err)
				}
				other := s.beginTx(b.db, sql.LevelReadCommitted)
				if claimed, err := b.ClaimTx(s.ctx(), other, s.job, midnight); claimed || err != nil {
					s.Errorf("ClaimTx beside ClaimTx %d: %v, %v", i, claimed, err)
				}
				s.must(usable(s.ctx(), other))
				s.must(other.Rollback())
			}
			s.must(usable(s.ctx(), tx)) // "taken" does not abort it
			s.must(end(tx))
		}
		if claimed, err := b.Claim(s.ctx(), s.job, midnight); claimed || err != nil {
			s.Errorf("Claim after the commit: %v, %v", claimed, err)
		}
	})
}

func usable(ctx context.Context, tx *sql.Tx) error {
	var one int
	return tx.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

func TestClaimTxRefusesSnapshots(t *testing.T) {
	eachOf(t, []stack{onPgx, onPQ}, func(s *site) {
		r := s.replica()
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			tx := s.beginTx(r.db, level)
			s.must(usable(s.ctx(), tx))
			if claimed, err := s.replica().Claim(s.ctx(), s.job, midnight.Add(time.Duration(level)*time.Hour)); !claimed || err != nil {
				s.Errorf("Claim: %v, %v", claimed, err)
			}
			if claimed, err := r.ClaimTx(s.ctx(), tx, s.job, midnight.Add(time.Duration(level)*time.Hour)); claimed || !errors.Is(err, sqllock.ErrUnsupported) {
				s.Errorf("ClaimTx at %v: %v, %v", level, claimed, err)
			}
			s.must(usable(s.ctx(), tx))
			s.must(tx.Rollback())
		}
	})
}

// On MySQL a claim waits for another transaction with the same claim, and then has it if the other is rolled back.
func TestClaimWaitsForClaimTxOnMySQL(t *testing.T) {
	eachOf(t, []stack{onMySQL, onMariaDB}, func(s *site) {
		a, b := s.replica(), s.replica()
		tx := s.beginTx(a.db, sql.LevelDefault)
		if claimed, err := a.ClaimTx(s.ctx(), tx, s.job, midnight); !claimed || err != nil {
			s.Fatalf("ClaimTx: %v, %v", claimed, err)
		}
		short, cancel := context.WithTimeout(s.Context(), 200*time.Millisecond)
		defer cancel()
		if claimed, err := b.Claim(short, s.job, midnight); claimed || !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Claim did not wait: %v, %v", claimed, err)
		}
		s.must(tx.Rollback())
		if claimed, err := b.Claim(s.ctx(), s.job, midnight); !claimed || err != nil {
			s.Errorf("Claim after the rollback: %v, %v", claimed, err)
		}
	})
}

// A pool of one connection, which the caller's transaction has, is enough for ClaimTx.
func TestClaimTxNeedsNoOtherConnection(t *testing.T) {
	eachOf(t, []stack{onPgx, onMySQL}, func(s *site) {
		s.replica()
		r := s.newReplica(s.at)
		r.db.SetMaxOpenConns(1)
		tx := s.beginTx(r.db, sql.LevelReadCommitted)
		if claimed, err := r.ClaimTx(s.ctx(), tx, s.job, midnight); !claimed || err != nil {
			s.Errorf("ClaimTx: %v, %v", claimed, err)
		}
		s.must(tx.Commit())
	})
}
