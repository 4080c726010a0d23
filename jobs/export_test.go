package jobs

// OnStep tells f what Once does next: look, lock, insert, run, finish, release, end.
func (l *Ledger) OnStep(f func(step string)) { l.step = f }
