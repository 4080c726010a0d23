package jobs

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sqllock/sqllock"
)

// A table is where a ledger's rows are, and how its server spells things.
type table struct {
	postgres bool
	name     string            // quoted
	space    sqllock.Namespace // of the keys: schema and name, because MySQL's locks are the whole server's
	daily    bool              // it began as the article's two columns: one row a job and day
	bare     bool              // and has no more than these: only Claim can use it
}

// sql completes a text: every ? becomes what the server takes, then the words in braces their meaning.
func (t *table) sql(text string) string {
	job, key, now := "job", "slot", "UTC_TIMESTAMP(6)"
	if t.daily {
		job, key = "job_name", "run_date"
	}
	if t.postgres {
		text = numbered(text)
		now = "(pg_catalog.clock_timestamp() AT TIME ZONE 'UTC')"
	}
	return strings.NewReplacer("{table}", t.name, "{job}", job, "{key}", key, "{now}", now).Replace(text)
}

// numbered turns ? into $1, $2 and so on.
func numbered(text string) string {
	parts := strings.Split(text, "?")
	var b strings.Builder
	for i, p := range parts {
		b.WriteString(p)
		if i+1 < len(parts) {
			b.WriteString("$" + strconv.Itoa(i+1))
		}
	}
	return b.String()
}

// text is a column of type timestamp as text, so that no driver setting shifts or reinterprets it.
func (t *table) text(column string) string {
	if t.postgres {
		return "pg_catalog.to_char(" + column + ", 'YYYY-MM-DD HH24:MI:SS.US')"
	}
	return "DATE_FORMAT(" + column + ", '%Y-%m-%d %H:%i:%s.%f')"
}

const timeLayout = "2006-01-02 15:04:05.000000"

// exact is a slot as a timestamp column takes it: UTC, to the microsecond.
func exact(slot time.Time) string { return slot.UTC().Format(timeLayout) }

// key is a slot as the primary key takes it: where there is room for one a day, the date in the slot's own location.
func (t *table) key(slot time.Time) string {
	if t.daily {
		return slot.Format(time.DateOnly)
	}
	return exact(slot)
}

// keyText selects what key made.
func (t *table) keyText() string {
	switch {
	case !t.daily:
		return t.text("{key}")
	case t.postgres:
		return "pg_catalog.to_char({key}, 'YYYY-MM-DD')"
	}
	return "DATE_FORMAT({key}, '%Y-%m-%d')"
}

// parse reads what text selected; the zero time for NULL.
func parse(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.ParseInLocation(timeLayout, s, time.UTC)
}

// quote makes an identifier of a table's name, "job_runs" or "billing.job_runs".
func quote(name string, postgres bool) string {
	mark := "`"
	if postgres {
		mark = `"`
	}
	parts := strings.Split(name, ".")
	for i, p := range parts {
		parts[i] = mark + strings.ReplaceAll(p, mark, mark+mark) + mark
	}
	return strings.Join(parts, ".")
}

// maxIdentifier is PostgreSQL's, which cuts longer names off silently; MySQL's is one more.
const maxIdentifier = 63

func checkTable(name string) error {
	parts := strings.Split(name, ".")
	for _, p := range parts {
		if p == "" || len(p) > maxIdentifier || !utf8.ValidString(p) || strings.ContainsAny(p, "\x00{}") {
			return fmt.Errorf("jobs: WithTable(%q): %q is no name for a table: use 1 to %d bytes, without braces", cut(name), cut(p), maxIdentifier)
		}
	}
	if len(parts) > 2 {
		return fmt.Errorf("jobs: WithTable(%q): too many dots: use table, or schema.table", cut(name))
	}
	return nil
}

// cut keeps a name of any length from filling a log.
func cut(name string) string {
	if len(name) > 2*maxJob {
		return strings.ToValidUTF8(name[:2*maxJob], "") + "…"
	}
	return name
}

// legible is a name as it can stand in a message, as keys do.
func legible(name string) string { return sqllock.Name(name).String() }

// maxJob is the width of the column, in characters.
const maxJob = 100

func checkJob(job string) error {
	switch {
	case job == "":
		return fmt.Errorf("jobs: the job has no name")
	case !utf8.ValidString(job) || strings.ContainsRune(job, 0) || strings.TrimSpace(job) != job:
		return fmt.Errorf("jobs: job %q: a name is UTF-8 text that neither begins nor ends with a space", cut(job))
	case utf8.RuneCountInString(job) > maxJob:
		return fmt.Errorf("jobs: job %q: the name is longer than %d characters", cut(job), maxJob)
	}
	return nil
}

func checkSlot(job string, slot time.Time) error {
	if y := slot.UTC().Year(); y < 1000 || y > 9999 {
		return fmt.Errorf("jobs: job %q: the slot %v is not between the years 1000 and 9999: pass the time that the schedule says, not the zero time", cut(job), slot)
	}
	return nil
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: jobs: %s", sqllock.ErrUnsupported, fmt.Sprintf(format, args...))
}
