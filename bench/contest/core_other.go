//go:build !linux

package contest

// OnOneCore runs f wherever the system lets it run.
func OnOneCore(f func() error) error { return f() }
