package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sqllock/sqllock"
)

type holdersFlags struct {
	watch, json bool
	interval    time.Duration
	names       []string
	namespace   string
}

func (a *app) holdersCommand() *cobra.Command {
	var f holdersFlags
	cmd := &cobra.Command{
		Use:   "holders",
		Short: "Show who holds locks and who waits for them",
		Long: `holders shows every session that holds a session or transaction lock, or waits for one: on PostgreSQL in the database,
on MySQL and MariaDB on the whole server.

A server shows a name's hash only. Tell the names in use with --name, and they are shown instead. SINCE is how long a
holder has been connected and a waiter has waited: no server tells when a lock was granted.`,
		Example: "  sqllock holders --name daily-settlement --name migrate\n  sqllock holders --watch\n  sqllock holders --json | jq '.[] | select(.waiting)'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, dialect, err := a.open("sqllock holders", false)
			if err != nil {
				return err
			}
			defer db.Close()
			l := &lister{app: a, db: db, flags: &f, names: f.known(dialect)}
			if f.watch {
				return l.watch(cmd.Context())
			}
			return l.once(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&f.watch, "watch", false, "refresh in place until Ctrl-C")
	fs.DurationVar(&f.interval, "interval", time.Second, "between two refreshes")
	fs.BoolVar(&f.json, "json", false, "for a program: one array, with --watch one a line")
	fs.StringSliceVar(&f.names, "name", nil, "a name in use, to be shown instead of its hash; can be repeated")
	fs.StringVar(&f.namespace, "namespace", "", "the names' namespace")
	return cmd
}

// known maps the keys of the names that were told, as the server shows them, back to the names.
func (f *holdersFlags) known(d sqllock.Dialect) map[string]string {
	names := map[string]string{}
	for _, n := range f.names {
		if key, name, err := nameKey(f.namespace, n); err == nil {
			names[spelled(d, key, false)] = name
		}
	}
	for key, tool := range map[sqllock.Key]string{sqllock.GooseKey(): "goose"} {
		names[spelled(d, key, false)] = tool
	}
	return names
}

// A namedHolder is what --json shows.
type namedHolder struct {
	Name string `json:"name,omitempty"`
	sqllock.Holder
}

// A lister shows the holders on one database.
type lister struct {
	*app
	db    *sql.DB
	flags *holdersFlags
	names map[string]string
}

func (l *lister) list(ctx context.Context) ([]namedHolder, error) {
	found, err := sqllock.Holders(ctx, l.db)
	holders := make([]namedHolder, len(found)) // not nil: JSON's is []
	for i, h := range found {
		holders[i] = namedHolder{l.names[h.Key], h}
	}
	return holders, err
}

func (l *lister) once(ctx context.Context) error {
	holders, err := l.list(ctx)
	if err != nil {
		return err
	}
	if l.flags.json {
		return writeJSON(l.out, holders)
	}
	width, _ := size(l.out)
	lines := holderTable(holders, time.Now(), width)
	_, err = fmt.Fprintln(l.out, strings.Join(lines, "\n"))
	return err
}

// holderColumns: what matters most comes first, and is not cut for what comes last.
var holderColumns = []column{
	{"KEY", 20}, {"LOCK", 16}, {"PID", 8}, {"SINCE", 6}, {"CLIENT", 15}, {"STATE", 6}, {"APPLICATION", 12}, {"USER", 6}, {"STATEMENT", 20},
}

func holderTable(holders []namedHolder, now time.Time, width int) []string {
	if len(holders) == 0 {
		return []string{"nobody holds a lock or waits for one"}
	}
	var rows [][]string
	hidden := ""
	for _, h := range holders {
		rows = append(rows, holderRow(h, now))
		if h.Hidden != "" {
			hidden = h.Hidden
		}
	}
	lines := table(holderColumns, rows, width)
	if hidden != "" {
		lines = append(lines, "some are not shown in full: "+hidden)
	}
	return lines
}

func holderRow(h namedHolder, now time.Time) []string {
	name := h.Name
	if name == "" {
		name = h.Key
	}
	lock, since := "exclusive", h.Connected
	if h.Shared {
		lock = "shared"
	}
	if h.Waiting {
		lock, since = "waits", h.Since
		if len(h.WaitsFor) > 0 {
			lock = "waits for " + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(h.WaitsFor)), ","), "[]")
		}
	}
	if since.IsZero() {
		since = h.Since
	}
	return []string{printable(name), lock, fmt.Sprint(h.PID), ago(now, since), printable(h.Client), printable(h.State), printable(h.Application), printable(h.User), printable(h.Statement)}
}

// ago is short: 340ms, 12s, 3m12s, 5h03m, 12d.
func ago(now, then time.Time) string {
	d := max(0, now.Sub(then))
	switch {
	case then.IsZero():
		return ""
	case d < time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// watch refreshes in place, on the terminal's other screen, so that what was there before comes back.
func (l *lister) watch(ctx context.Context) error {
	if !l.flags.json && !isTerminal(l.out) {
		return usage("--watch is for a terminal; for a program use --watch --json")
	}
	if l.flags.interval < 10*time.Millisecond {
		return usage("--interval is at least 10ms")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !l.flags.json {
		io.WriteString(l.out, "\x1b[?1049h\x1b[?25l")
		defer io.WriteString(l.out, "\x1b[?25h\x1b[?1049l")
	}
	tick := time.NewTicker(l.flags.interval)
	defer tick.Stop()
	for {
		if err := l.refresh(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// refresh shows what is; a server that does not answer is a line, because it may come back.
func (l *lister) refresh(ctx context.Context) error {
	holders, err := l.list(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if l.flags.json {
		if err != nil {
			return err
		}
		return writeJSON(l.out, holders)
	}
	width, height := size(l.out)
	now := time.Now()
	lines := []string{shorten(fmt.Sprintf("sqllock holders, %s, every %v; Ctrl-C ends", now.Format(time.TimeOnly), l.flags.interval), max(width, 20)), ""}
	if err != nil {
		lines = append(lines, strings.Split(wrap(line(err, l.secrets...), width, ""), "\n")...)
	} else {
		lines = append(lines, holderTable(holders, now, width)...)
	}
	if height > 0 && len(lines) > height {
		more := fmt.Sprintf("... and %d more lines", len(lines)-height+1)
		lines = append(lines[:height-1], more)
	}
	_, err = io.WriteString(l.out, "\x1b[H"+strings.Join(lines, "\x1b[K\r\n")+"\x1b[K\x1b[J")
	return err
}
