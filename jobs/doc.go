// Package jobs runs a job once per slot, with any number of replicas, and elects a leader among them.
//
// A lock alone stops runs at the same time, but not a second run after a fast first one; a row in a table alone stops
// the second run, but not for ever after a crash. A [Ledger] has both: while a job runs its replica holds a session
// lock, and a row of the table job_runs says what became of each slot.
//
//	ledger := jobs.NewLedger(db, sqllock.NewPostgres(db))
//	ran, err := ledger.Once(ctx, "settlement", slot, func(ctx context.Context, run *jobs.Run) error { ... })
//
// A slot is the time for which a run is due, by the schedule: 2026-12-02 00:00 in Europe/Berlin. It is the same in
// all replicas, whatever their clocks say when they fire; it is never time.Now(). A slot is an instant: the hour that
// is repeated when summer time ends is two slots of an hourly job, the hour that is left out is none.
// The adapters below jobs/schedulers know the slot of their schedules.
//
// [Ledger.Claim] is the light form, the row alone. [Lead] keeps one leader running.
//
// # Files
//
//   - ledger.go: Ledger and its options; errors.go: why a slot is not run
//   - once.go: Once, one attempt from the lock to its outcome; recover.go: slots that were left behind
//   - claim.go: Claim, ClaimTx; history.go: Runs, Prune
//   - table.go: the table, made or adopted; statements.go: its SQL on each server
//   - lead.go: Lead
package jobs
