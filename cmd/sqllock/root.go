package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// An app is one call of sqllock.
type app struct {
	in       io.Reader
	out, err io.Writer
	dsn      string
	secrets  []string // what no message may show
}

// run is main with everything that a test wants to see.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (code int) {
	a := &app{in: in, out: out, err: errs}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprintln(errs, line(fmt.Errorf("a mistake in sqllock, please report it: %v", v), a.secrets...))
			code = exSoftware
		}
	}()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if err.Error() != "" {
		fmt.Fprintln(errs, line(err, a.secrets...))
	}
	return codeOf(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "sqllock",
		Short:         "Database locks from the shell",
		Long:          long,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Sprintf("unknown command %s: see sqllock --help", echo(args[0])))
			}
			return cmd.Help()
		},
	}
	root.PersistentFlags().StringVar(&a.dsn, "dsn", "", "the database: postgres://... or mysql://... (others can read it in the process list: prefer SQLLOCK_DSN)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(flagError(err)) })
	root.AddCommand(a.runCommand(), a.holdersCommand(), a.breakCommand(), a.checkCommand(), a.historyCommand(), a.keyCommand())
	for _, c := range root.Commands() {
		if c.Args == nil {
			c.Args = noArgs
		}
	}
	return root
}

const long = `sqllock runs a command while it holds a lock of your PostgreSQL, MySQL or MariaDB, so that of many hosts one
runs it, and shows who holds what.

The database is what --dsn, SQLLOCK_DSN or DATABASE_URL says, or else libpq's PG* variables:
  postgres://user:password@host:5432/name     mysql://user:password@host:3306/name

Exit codes: the command's own; 1 (or -E) where the key is held elsewhere; 64-78, as in sysexits, where sqllock
itself fails, with one line that says why.`

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Sprintf("%s takes no argument %s: see %s --help", cmd.CommandPath(), echo(args[0]), cmd.CommandPath()))
	}
	return nil
}

// version is that of the module that was installed.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// isTerminal says whether what is written there is looked at by a person.
func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && terminal(f)
}
