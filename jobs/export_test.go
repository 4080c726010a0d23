package jobs

// SetStep lets a test be told, and stop, at each step of Once.
func (l *Ledger) SetStep(f func(name string)) { l.step = f }
