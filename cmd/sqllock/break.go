package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sqllock/sqllock"
)

type breakFlags struct {
	keyFlags
	yes bool
	pid int64
}

func (a *app) breakCommand() *cobra.Command {
	var f breakFlags
	cmd := &cobra.Command{
		Use:   "break --key NAME",
		Short: "End the session that holds a lock",
		Long: `break shows who holds the lock, asks, and ends that one session: all its locks are lost, and its transaction is rolled
back. Its program is told, if it listens. Where several sessions share the lock, --pid says which.

It takes the right to end others' sessions: pg_signal_backend on PostgreSQL, CONNECTION_ADMIN (MySQL 8: and SUPER
before) or CONNECTION ADMIN (MariaDB). It exits with 1 if nobody holds the lock or the answer is no.`,
		Example: "  sqllock break --key daily-settlement\n  sqllock break --id 42 --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, name, err := f.key()
			if err != nil {
				return err
			}
			db, dialect, err := a.open("sqllock break", false)
			if err != nil {
				return err
			}
			defer db.Close()
			b := &breaker{app: a, db: db, flags: &f, name: name, dialect: dialect, key: spelled(dialect, key, f.pair != "")}
			return b.run(cmd.Context())
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().Int64Var(&f.pid, "pid", 0, "which of several holders")
	return cmd
}

type breaker struct {
	*app
	db        *sql.DB
	flags     *breakFlags
	name, key string
	dialect   sqllock.Dialect
}

func (b *breaker) run(ctx context.Context) error {
	h, err := b.find(ctx)
	if err != nil {
		return err
	}
	width, _ := size(b.out)
	lines := holderTable([]namedHolder{{b.name, *h}}, time.Now(), width)
	fmt.Fprintln(b.out, strings.Join(lines, "\n"))
	if err := b.confirm(h); err != nil {
		return err
	}
	if err := b.end(ctx, h.PID); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "ended session %d: %s is free, or its next holder's\n", h.PID, printable(b.name))
	return nil
}

// find returns the one holder.
func (b *breaker) find(ctx context.Context) (*sqllock.Holder, error) {
	all, err := sqllock.Holders(ctx, b.db)
	if errors.Is(err, sqllock.ErrUnsupported) && b.dialect == sqllock.DialectMySQL {
		all, err = b.findByName(ctx) // a server that lists no locks still knows each by its name
	}
	if err != nil {
		return nil, err
	}
	var found []sqllock.Holder
	for _, h := range all {
		if h.Key == b.key && !h.Waiting && (b.flags.pid == 0 || b.flags.pid == h.PID) {
			found = append(found, h)
		}
	}
	switch {
	case len(found) == 0:
		return nil, &exit{1, "nobody holds " + b.name}
	case len(found) > 1:
		named := make([]namedHolder, len(found))
		for i, h := range found {
			named[i] = namedHolder{b.name, h}
		}
		fmt.Fprintln(b.out, strings.Join(holderTable(named, time.Now(), 0), "\n"))
		return nil, usage(fmt.Sprintf("%d sessions share %s: say which with --pid", len(found), b.name))
	}
	return &found[0], nil
}

func (b *breaker) findByName(ctx context.Context) ([]sqllock.Holder, error) {
	var id sql.NullInt64
	if err := b.db.QueryRowContext(ctx, "SELECT IS_USED_LOCK('"+b.key+"')").Scan(&id); err != nil || !id.Valid {
		return nil, err
	}
	h := sqllock.Holder{Kind: "named lock", Key: b.key, PID: id.Int64}
	err := b.db.QueryRowContext(ctx, "SELECT USER, HOST, COMMAND, COALESCE(LEFT(INFO, 1000), '') FROM information_schema.PROCESSLIST WHERE ID = ?", id.Int64).
		Scan(&h.User, &h.Client, &h.State, &h.Statement)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil // another user's
	}
	return []sqllock.Holder{h}, err
}

func (b *breaker) confirm(h *sqllock.Holder) error {
	if b.flags.yes {
		return nil
	}
	if !isTerminal(b.in) {
		return usage("there is nobody to ask: give --yes")
	}
	fmt.Fprintf(b.out, "End session %d? All its locks are lost. [y/N] ", h.PID)
	answer, _ := bufio.NewReader(b.in).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a == "y" || a == "yes" {
		return nil
	}
	return &exit{1, "nothing was ended"}
}

// end ends the session if it is still the one that was shown: it holds the key. Then it waits until the server has done so.
func (b *breaker) end(ctx context.Context, pid int64) error {
	still := func() (bool, error) {
		h, err := b.find(ctx)
		var none *exit
		if errors.As(err, &none) && none.code == 1 {
			return false, nil
		}
		return h != nil && h.PID == pid, err
	}
	holds, err := still()
	if err != nil {
		return err
	}
	if !holds {
		return &exit{1, fmt.Sprintf("session %d has just given %s up: nothing was ended", pid, b.name)}
	}
	if b.dialect == sqllock.DialectMySQL {
		_, err = b.db.ExecContext(ctx, fmt.Sprintf("KILL %d", pid))
	} else {
		_, err = b.db.ExecContext(ctx, "SELECT pg_catalog.pg_terminate_backend($1)", pid)
	}
	if err != nil {
		return fmt.Errorf("session %d was not ended: it takes pg_signal_backend, or CONNECTION_ADMIN on MySQL: %w", pid, err)
	}
	return awaitEnd(ctx, pid, still)
}

const endPatience = 10 * time.Second

func awaitEnd(ctx context.Context, pid int64, still func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(endPatience); time.Now().Before(end); {
		if holds, err := still(); err != nil || !holds {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return &exit{exUnavailable, fmt.Sprintf("the server was told to end session %d, which still holds the lock after %v", pid, endPatience)}
}
