// Package jobs runs a job once, however many replicas want to: [Ledger] for jobs that a schedule starts, [Lead] for what
// one replica does all the time.
//
//	ledger := jobs.NewLedger(db, sqllock.NewPostgres(db)) // or sqllock.NewMySQL(db)
//	err := ledger.Create(ctx)                             // once, at the start: table job_runs
//
//	ran, err := ledger.Once(ctx, "daily-settlement", slot, func(ctx context.Context, run *jobs.Run) error {
//		return settle(ctx, run.Slot)
//	})
//
// A lock alone stops replicas from running a slot at the same time, but not a second run after a fast first one; the row of a
// table alone stops the second run, but not a slot that a crashed replica left half done. A [Ledger] has both.
//
// # Slots
//
// A slot is an instant that the schedule names: 01:00 of a day, not the moment at which a replica woke up. Replicas whose
// clocks differ, or which fire early, pass the same slot. A slot has no location: on the day on which clocks go back, an
// hourly schedule has two slots at the local hour that comes twice, and both are run; a daily 01:00 has one slot on every
// day. What a schedule makes of an hour that does not exist is the scheduler's rule: the packages below jobs/schedulers ask it.
//
// # Files
//
//   - ledger.go: Ledger and its options; create.go: the table, and the article's; table.go: how a server spells things
//   - once.go: Do and Once, and how a slot is granted; run.go: the job under the lock, and its end
//   - rows.go: the statements; history.go: Runs, Prune; recover.go: Recover; claim.go: Claim, ClaimTx
//   - lead.go: Lead
package jobs
