package load

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
)

// A dialect is what differs between the servers.
type dialect struct {
	postgres bool
	ways     []way
	setup    []string
	filler   string // one row of load_t

	held     string // what leaks are called, as attempts call them
	sessions string // how many the pool has

	point, update, try, unlock string
}

// base keeps the numbers of attempts away from those of the goroutines' own keys.
const base = 1 << 40

func dialectOf(driver string) (*dialect, error) {
	switch driver {
	case "pgx", "pq":
		return postgres, nil
	case "mysql":
		return mysqlDialect, nil
	}
	return nil, fmt.Errorf("load: the driver %q is none of pgx, pq and mysql", driver)
}

func (d *dialect) argument(n int64) any {
	if d.postgres {
		return base + n
	}
	return d.lockName(n)
}

// literal is the argument as a text has it.
func (d *dialect) literal(n int64) string {
	if d.postgres {
		return strconv.FormatInt(base+n, 10)
	}
	return "'" + d.lockName(n) + "'"
}

// lockName is the attempt's lock as held calls it.
func (d *dialect) lockName(n int64) string {
	if d.postgres {
		return strconv.FormatInt(base+n, 10)
	}
	return "load." + strconv.FormatInt(n, 10)
}

// ownKey is a goroutine's.
func (d *dialect) ownKey(n int) any {
	if d.postgres {
		return n
	}
	return "work." + strconv.Itoa(n)
}

func (d *dialect) waysOf(driver string) []way {
	return slices.DeleteFunc(slices.Clone(d.ways), func(w way) bool { return w.only != "" && w.only != driver })
}

// prepare makes the tables and functions anew.
func (d *dialect) prepare(ctx context.Context, db *sql.DB) error {
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	texts := slices.Clone(d.setup)
	for n := goroutines - leaking; n < goroutines; n++ {
		if !d.postgres {
			texts = append(texts, fmt.Sprintf("CREATE TABLE IF NOT EXISTS load_table_%d (a INT)", n))
		}
	}
	for n := range goroutines {
		texts = append(texts, fmt.Sprintf(d.filler, n))
	}
	for _, text := range texts {
		if _, err := c.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}
