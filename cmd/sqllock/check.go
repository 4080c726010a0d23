package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sqllock/sqllock"
)

func (a *app) checkCommand() *cobra.Command {
	var asJSON, transaction bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look whether a server, and what is in front of it, is fit for locks",
		Long: `check looks what the server is, whether it is a standby or a cluster's node, whether its locks exclude, whether a pooler is
in between and in which mode, and what would cut a holder. It tries locks of random keys for a moment.

It exits with 1 if there is an error among what it finds.`,
		Example: "  sqllock check --dsn postgres://app@db.example/app\n  sqllock check --json | jq -r '.findings[] | select(.severity == \"error\") | .remedy'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, _, err := a.open("sqllock check", true)
			if err != nil {
				return err
			}
			defer db.Close()
			var opts []sqllock.CheckOption
			if transaction {
				opts = append(opts, sqllock.ForTransactionLocks())
			}
			found, err := sqllock.Check(cmd.Context(), db, opts...)
			if err != nil {
				return err
			}
			found.List = slices.DeleteFunc(found.List, func(f sqllock.Finding) bool { return f.Topic == "guard" }) // this program's own pool
			if err := a.showFindings(found, asJSON); err != nil {
				return err
			}
			if found.Worst() == sqllock.SeverityError {
				return &exit{code: 1}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "for a program")
	cmd.Flags().BoolVar(&transaction, "transaction-locks", false, "only transaction locks are used (RunExclusive): a pooler in transaction mode is fine then")
	return cmd
}

func (a *app) showFindings(found sqllock.Findings, asJSON bool) error {
	if asJSON {
		return writeJSON(a.out, found)
	}
	width, _ := size(a.out)
	colour := isTerminal(a.out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	lines := []string{printable(found.Headline())}
	for _, f := range found.List {
		lines = append(lines, findingLines(f, width, colour)...)
	}
	if len(found.List) > 0 && found.Worst() == sqllock.SeverityInfo {
		lines = append(lines, "nothing is wrong with it")
	}
	_, err := fmt.Fprintln(a.out, strings.Join(lines, "\n"))
	return err
}

var severityColours = map[sqllock.Severity]string{sqllock.SeverityInfo: "\x1b[32m", sqllock.SeverityWarning: "\x1b[33m", sqllock.SeverityError: "\x1b[31m"}

const findingIndent = "         "

func findingLines(f sqllock.Finding, width int, colour bool) []string {
	label := fmt.Sprintf("%-7s", f.Severity)
	if colour {
		label = severityColours[f.Severity] + label + "\x1b[0m"
	}
	lines := []string{label + "  " + wrap(f.Topic+": "+printable(f.Seen), width, findingIndent)}
	if f.Why != "" {
		lines = append(lines, findingIndent+wrap("why: "+printable(f.Why), width, findingIndent))
	}
	if f.Remedy != "" {
		lines = append(lines, findingIndent+wrap("remedy: "+printable(f.Remedy), width, findingIndent))
	}
	return lines
}
