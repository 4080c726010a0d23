// Command sqllock holds database locks for programs that are not written in Go, and looks at locks and servers.
//
//	sqllock run --key daily-settlement -n -- ./settle.sh   # on every host: one of them runs it
//	sqllock run --key daily-settlement --once --slot 2026-12-02 -- ./settle.sh   # and never again for that day
//	sqllock holders --watch
//	sqllock check
//
// Install it with
//
//	go install github.com/sqllock/sqllock/cmd/sqllock@latest
//
// It exits as flock(1) does: with the command's own code, with 1 (or -E) where the key is held elsewhere, and with a code
// of sysexits(3), 64 to 78, where it fails itself; then one line on standard error says why. Passwords are never printed.
//
// Files: root.go has the commands' frame, exit.go the codes, dsn.go and key.go what they have in common; then one file a command.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
