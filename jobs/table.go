package jobs

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sqllock/sqllock"
)

// querier is a pool or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// table is what the server has: which kind of server it is, and which of three forms the table has there.
type table struct {
	postgres bool
	name     string // quoted
	schema   string // "" is the session's own
	plain    string // the name without the schema
	location *time.Location
	// dated: the two-column table, (job_name, run_date), which was there before.
	dated bool
	// bare: it has no other columns yet: Claim works, Once needs Create.
	bare bool
}

// Create makes the table if it does not exist. It can be called by every replica at its start, at once and again and
// again: it holds a lock meanwhile.
//
// The two-column table job_runs (job_name, run_date) is adopted: Create adds the columns that it lacks, and keeps its
// key. A plain INSERT of those two columns, by programs that know no others, still works, still excludes, and counts as a
// claim. Its slots are dates: see [Ledger.Once].
//
// Without the right to make tables, make it by hand: [Ledger.Schema] has the statements.
func (l *Ledger) Create(ctx context.Context) (err error) {
	if l.err != nil {
		return l.err
	}
	lock, err := l.locker.Acquire(ctx, l.space(" create").Name(""))
	if err != nil {
		return err
	}
	defer func() {
		if e := lock.Release(); err == nil {
			err = e
		}
	}()
	statements, err := l.Schema(ctx)
	for _, s := range statements {
		if _, err := l.db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("jobs: create the table: %w", err)
		}
	}
	return err
}

// Schema returns the statements that Create would run now: none if the table is as it should be.
func (l *Ledger) Schema(ctx context.Context) ([]string, error) {
	if l.err != nil {
		return nil, l.err
	}
	t, err := l.server(ctx, l.db)
	if err != nil {
		return nil, err
	}
	columns, err := t.columns(ctx, l.db)
	switch {
	case err != nil:
		return nil, err
	case len(columns) == 0:
		return t.create(), nil
	}
	if err := t.inspect(columns); err != nil || !t.bare {
		return nil, err
	}
	return t.extend(), nil
}

// table looks at the server once.
func (l *Ledger) table(ctx context.Context, q querier) (*table, error) {
	l.mu.Lock()
	found := l.found
	l.mu.Unlock()
	if found != nil {
		return found, nil
	}
	t, err := l.server(ctx, q)
	if err != nil {
		return nil, err
	}
	columns, err := t.columns(ctx, q)
	if err == nil {
		err = t.inspect(columns)
	}
	if err != nil {
		return nil, err
	}
	if !t.bare { // it may yet be extended
		l.mu.Lock()
		l.found = t
		l.mu.Unlock()
	}
	return t, nil
}

// server asks what kind of server it is: the driver need not be known for that.
func (l *Ledger) server(ctx context.Context, q querier) (*table, error) {
	var version string
	if err := q.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		return nil, err
	}
	t := &table{postgres: strings.HasPrefix(version, "PostgreSQL") || strings.HasPrefix(version, "CockroachDB"), location: l.cfg.location}
	t.name, t.plain = t.quote(l.cfg.table), l.cfg.table
	if schema, plain, ok := strings.Cut(l.cfg.table, "."); ok {
		t.schema, t.plain = schema, plain
	}
	if _, ok := l.locker.(*sqllock.MySQL); ok && t.postgres {
		return nil, fmt.Errorf("%w: the locker is MySQL's, the *sql.DB is PostgreSQL's", sqllock.ErrUnsupported)
	}
	if _, ok := l.locker.(*sqllock.Postgres); ok && !t.postgres {
		return nil, fmt.Errorf("%w: the locker is PostgreSQL's, the *sql.DB is MySQL's", sqllock.ErrUnsupported)
	}
	return t, nil
}

// quote quotes each part of a name.
func (t *table) quote(name string) string {
	mark := "`"
	if t.postgres {
		mark = `"`
	}
	parts := strings.Split(name, ".")
	for i, p := range parts {
		parts[i] = mark + strings.ReplaceAll(p, mark, mark+mark) + mark
	}
	return strings.Join(parts, ".")
}

// columns lists the table's columns: none if there is no table, which is no error, because that would end a transaction.
func (t *table) columns(ctx context.Context, q querier) (names []string, err error) {
	query, args := "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped", []any{t.name}
	if !t.postgres {
		query = "SELECT column_name FROM information_schema.columns WHERE table_name = ? AND table_schema = CASE WHEN ? = '' THEN DATABASE() ELSE ? END"
		args = []any{t.plain, t.schema, t.schema}
	}
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("jobs: look at the table %s: %w", t.name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, strings.ToLower(name))
	}
	return names, rows.Err()
}

// inspect reads the table's form off its columns.
func (t *table) inspect(columns []string) error {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(columns, n) })
	}
	whole := has("slot", "status", "attempt", "token", "host", "started", "finished", "error")
	switch {
	case whole && has("job"):
	case has("job_name", "run_date"):
		t.dated, t.bare = true, !whole
	case len(columns) == 0:
		return fmt.Errorf("%w: there is no table %s: call Ledger.Create, which makes it", ErrTable, t.name)
	default:
		return fmt.Errorf("%w: %s has the columns %s: name another one with WithTable", ErrTable, t.name, strings.Join(columns, ", "))
	}
	return nil
}

// The slot in Go's and, up to the time zone, in the servers' spelling.
const (
	slotLayout = "2006-01-02 15:04:05.000000"
	dateLayout = time.DateOnly
)

// spell returns the slot as the key has it: as text in UTC, so that no setting of a driver or a session shifts it. On
// the dated table it is the slot's date where the slot is meant.
func (t *table) spell(slot time.Time) (string, error) {
	if slot.IsZero() || slot.Year() < 1000 || slot.Year() > 9999 {
		return "", fmt.Errorf("jobs: the slot %v: want the time for which the run is due", slot)
	}
	if t.dated {
		return slot.Format(dateLayout), nil
	}
	return exact(slot), nil
}

func exact(slot time.Time) string { return slot.UTC().Format(slotLayout) }

// read returns the slot of a row, in the ledger's location. On the dated table the exact one may be unknown.
func (t *table) read(at string, slot *string) (time.Time, error) {
	if slot == nil {
		return time.ParseInLocation(dateLayout, at, t.location)
	}
	m, err := time.Parse(slotLayout, *slot)
	return m.In(t.location), err
}
