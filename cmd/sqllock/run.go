package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs"
)

// runFlags are what `sqllock run` is asked for.
type runFlags struct {
	keyFlags
	nonblock, shared, exclusive, token, quiet, verbose bool
	wait                                               seconds
	once                                               bool
	slot, table                                        string
	conflict                                           int
	command                                            string
	grace, silence                                     time.Duration
}

// seconds reads both flock's numbers and Go's durations.
type seconds struct {
	time.Duration
	given bool
}

func (s *seconds) String() string { return "" }
func (s *seconds) Type() string   { return "time" }

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, e := strconv.ParseFloat(text, 64); e == nil {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		return errors.New("give a time such as 30s, or a number of seconds")
	}
	s.Duration, s.given = d, true
	return nil
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run --key NAME [flags] -- COMMAND [ARGUMENT]...",
		Short: "Run a command while holding a lock: flock(1) for a fleet",
		Long: `run holds the lock while the command runs, so that of all hosts that call it one runs the command.

Without -n or -w it waits until it has the lock. Signals go to the command and all that it has started (its process
group); the lock is kept until the command has ended. If the lock is lost the group is terminated: TERM, then KILL after
--grace, well before the server lets another one in (--silence). The same happens if sqllock itself is killed.

The command finds SQLLOCK_KEY in its environment and, with --token, SQLLOCK_TOKEN: a number that grows with every
holder, for the resource to refuse smaller ones. Its exit code is passed on; 128+n if signal n ended it.

With --once the slot is run once, however late the other hosts come and however fast the command is: a table, job_runs, keeps
what became of it (see sqllock history). A command that fails is run again by the next call, three times in all, a minute
apart. The command also finds SQLLOCK_SLOT and the ledger's SQLLOCK_TOKEN. A slot that is done or running exits 1 (or -E).

Exit codes of run's own: 1 (or -E) the key is held elsewhere; 64 bad usage; 68 unknown host; 69 no answer, or the
command cannot be run; 75 the lock was lost; 77 wrong password or missing grant; 78 the server, or a pooler in between,
cannot be used so.`,
		Example: `  sqllock run --key daily-settlement -n -- ./settle.sh          # skip it if another host is at it
  sqllock run --key migrate -w 5m -- ./migrate.sh               # wait for at most five minutes
  sqllock run --key report --shared -- ./report.sh              # many of these, but none beside an exclusive one
  sqllock run --key nightly --once --slot $(date +%F) -E 0 -- ./nightly.sh   # once a day, whatever the clocks say
  sqllock run --key nightly -n -E 0 -c 'cd /srv && make nightly'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			argv, err := f.argv(args)
			if err != nil {
				return err
			}
			return a.runLocked(cmd.Context(), &f, argv)
		},
	}
	f.add(cmd)
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.SetNormalizeFunc(flockNames)
	fs.BoolVarP(&f.nonblock, "nonblock", "n", false, "do not wait: exit 1 if the key is held elsewhere")
	fs.VarP(&f.wait, "wait", "w", "wait for at most so long, such as 30s or 30; 0 is -n")
	fs.IntVarP(&f.conflict, "conflict-exit-code", "E", 1, "the exit code where the key is held elsewhere, 0 to 255")
	fs.BoolVarP(&f.shared, "shared", "s", false, "a shared lock (PostgreSQL)")
	fs.BoolVarP(&f.exclusive, "exclusive", "x", false, "an exclusive lock (the default)")
	fs.StringVarP(&f.command, "command", "c", "", "one command line for the shell instead of COMMAND")
	fs.BoolVar(&f.token, "token", false, "give the command a fencing token in SQLLOCK_TOKEN (PostgreSQL)")
	fs.BoolVar(&f.once, "once", false, "run once per --slot, whoever comes when: a table has what became of each")
	fs.StringVar(&f.slot, "slot", "", "with --once, the time for which the run is due, such as 2026-12-02 or 2026-12-02T15:04")
	fs.StringVar(&f.table, "table", jobs.DefaultTable, "with --once, the table, which is made where it does not exist")
	fs.DurationVar(&f.grace, "grace", 0, "between TERM and KILL when the lock is lost (default 10s, less if --silence is short)")
	fs.DurationVar(&f.silence, "silence", sqllock.DefaultSilenceBound, "how long the server keeps the lock of a host that it hears nothing of")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "do not say who holds the key")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "say when the lock is had and given up")
	return cmd
}

// flockNames are flock's other names for the same flags.
func flockNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "nb":
		name = "nonblock"
	case "timeout":
		name = "wait"
	}
	return pflag.NormalizedName(name)
}

// argv returns the command to run.
func (f *runFlags) argv(args []string) ([]string, error) {
	if err := errors.Join(f.fitGrace(), f.checkOnce()); err != nil {
		return nil, err
	}
	switch {
	case f.shared && f.exclusive:
		return nil, usage("choose one of --shared and --exclusive")
	case f.conflict < 0 || f.conflict > 255:
		return nil, usage(fmt.Sprintf("-E %d is not between 0 and 255", f.conflict))
	case f.command != "" && len(args) > 0:
		return nil, usage("give either -c or a command, not both")
	case f.command != "":
		shell := os.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		return []string{shell, "-c", f.command}, nil
	case len(args) == 0:
		return nil, usage("what is to be run? sqllock run --key NAME -- COMMAND")
	}
	return args, nil
}

// fitGrace fits the grace between the moment at which the loss is known and that at which the server lets another in.
func (f *runFlags) fitGrace() error {
	keepalive := min(sqllock.DefaultKeepalive, f.silence/4)
	room := f.silence - keepalive - min(5*time.Second, (f.silence-keepalive)/2)
	if f.grace == 0 {
		f.grace = min(10*time.Second, room/2)
	}
	if f.grace < 0 || f.grace > room {
		return usage(fmt.Sprintf("--grace %v does not fit into --silence %v, which leaves %v: another host would start before the command is gone", f.grace, f.silence, room.Round(time.Millisecond)))
	}
	return nil
}

// runLocked does it all: its error says how to exit.
func (a *app) runLocked(ctx context.Context, f *runFlags, argv []string) (err error) {
	key, name, err := f.key()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(signals)

	db, dialect, err := a.open("sqllock run "+name, false)
	if err != nil {
		return err
	}
	locker, closeLocker := f.locker(db, dialect)
	defer func() {
		if !errors.Is(err, sqllock.ErrLost) { // or there is nobody to take leave of, and it would take its time
			closeLocker()
			db.Close()
		}
	}()
	if f.once {
		return a.runOnce(ctx, f, db, locker, argv, signals)
	}
	lock, err := a.acquire(ctx, f, locker, key, name, signals)
	if err != nil {
		return err
	}
	code, err := a.supervise(f, lock.Context(), argv, f.environment(lock, name), signals)
	if e := lock.Release(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if code != 0 {
		return &exit{code: code}
	}
	return nil
}

func (f *runFlags) locker(db *sql.DB, d sqllock.Dialect) (sqllock.Locker, func() error) {
	opts := []sqllock.LockerOption{sqllock.WithSilenceBound(f.silence)}
	if f.token {
		opts = append(opts, sqllock.WithToken())
	}
	if d == sqllock.DialectMySQL {
		l := sqllock.NewMySQL(db, opts...)
		if f.shared {
			return refuseShared{}, l.Close
		}
		return l, l.Close
	}
	l := sqllock.NewPostgres(db, opts...)
	if f.shared {
		return l.Shared(), l.Close
	}
	return l, l.Close
}

// refuseShared: named locks are exclusive.
type refuseShared struct{}

var errShared = &exit{exUsage, "--shared is for PostgreSQL: MySQL's named locks are exclusive"}

func (refuseShared) Acquire(context.Context, sqllock.Key) (*sqllock.Lock, error) {
	return nil, errShared
}
func (refuseShared) TryAcquire(context.Context, sqllock.Key) (*sqllock.Lock, error) {
	return nil, errShared
}

// environment is what the command finds besides ours.
func (f *runFlags) environment(lock *sqllock.Lock, name string) []string {
	env := []string{"SQLLOCK_KEY=" + name}
	if f.token {
		env = append(env, "SQLLOCK_TOKEN="+strconv.FormatInt(lock.Token(), 10))
	}
	return env
}

// acquire tries at once, which tells a server that cannot be reached from one where the key is held, and then waits as asked.
func (a *app) acquire(ctx context.Context, f *runFlags, l sqllock.Locker, key sqllock.Key, name string, signals <-chan os.Signal) (*sqllock.Lock, error) {
	ctx, stop := untilSignal(ctx, signals)
	defer stop()
	lock, err := l.TryAcquire(ctx, key)
	var held *sqllock.HeldError
	if errors.As(err, &held) && !f.nonblock && !(f.wait.given && f.wait.Duration == 0) {
		if f.verbose {
			a.sayHeld(ctx, held, name)
		}
		wait := ctx
		if f.wait.given {
			var cancel context.CancelFunc
			wait, cancel = context.WithTimeout(ctx, f.wait.Duration)
			defer cancel()
		}
		if lock, err = l.Acquire(wait, key); err != nil && wait.Err() != nil && ctx.Err() == nil {
			err = held
		}
	}
	var got gotSignal
	switch {
	case errors.As(context.Cause(ctx), &got) && err != nil:
		return nil, &exit{code: 128 + int(got)}
	case errors.As(err, &held):
		if !f.quiet {
			a.sayHeld(ctx, held, name)
		}
		return nil, &exit{code: f.conflict}
	case err == nil && f.verbose:
		fmt.Fprintf(a.err, "sqllock: %s is held\n", printable(name))
	}
	return lock, err
}

// sayHeld says in one line who holds the key.
func (a *app) sayHeld(ctx context.Context, held *sqllock.HeldError, name string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	who, err := held.Holder(ctx)
	switch {
	case err != nil:
		who = "another session (which one could not be asked)"
	case who == "":
		who = "a session that has just given it up"
	}
	fmt.Fprintf(a.err, "sqllock: %s is held by %s\n", printable(name), printable(who))
}

// gotSignal is why waiting ended.
type gotSignal syscall.Signal

func (gotSignal) Error() string { return "a signal" }

// untilSignal ends a context by a signal that would end a program, until it is told to stop. Such a signal is not for the
// command: there is none.
func untilSignal(ctx context.Context, signals <-chan os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case s := <-signals:
				if n, ok := ends(s); ok {
					cancel(gotSignal(n))
					return
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { close(done); <-ended }
}

// A lostError has been said already.
type lostError struct{ cause error }

func (*lostError) Error() string   { return "" }
func (e *lostError) Unwrap() error { return e.cause }

// supervise runs the command until it has ended, whatever happens to the lock. held ends when that is lost.
func (a *app) supervise(f *runFlags, held context.Context, argv, env []string, signals <-chan os.Signal) (code int, err error) {
	c, err := startChild(argv, append(os.Environ(), env...), f.grace)
	if err != nil {
		return 0, err
	}
	defer c.dismiss()
	lost := held.Done()
	var kill <-chan time.Time
	for {
		select {
		case code := <-c.ended:
			if lost == nil {
				c.endGroup(kill)
				return 0, &lostError{context.Cause(held)}
			}
			return code, nil
		case s := <-signals:
			c.signal(s.(syscall.Signal))
		case <-lost:
			lost = nil
			fmt.Fprintln(a.err, line(fmt.Errorf("%w: the command is terminated", context.Cause(held)), a.secrets...))
			c.signal(syscall.SIGTERM)
			kill = time.After(f.grace)
		case <-kill:
			c.signal(syscall.SIGKILL)
			kill = nil
		}
	}
}
