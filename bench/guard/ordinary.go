package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/sqllock/sqllock/bench/contest"
)

// sizes are those of the texts, and what the guard may add to a statement of that size. Every text is new to it.
var sizes = []struct {
	bytes int
	maxNS float64
}{{60, 60}, {2000, 200}}

// letters are texts made to be hard on a prefilter: of the very words and letters that it may look for.
var letters = []string{"advisory ", "_lock", "lock lock ", "vvvv", "____", "((((", "_advisery_(", "t_lack("}

// ordinaryDuels are about statements that have nothing to do with session locks: they must cost nothing.
func ordinaryDuels() (ds []duel) {
	for _, size := range sizes {
		add := func(p func(*sql.DB) (contest.Side, error), format string, args ...any) {
			what := fmt.Sprintf("%d B, ", size.bytes) + fmt.Sprintf(format, args...)
			ds = append(ds, duel{what: what, prepare: p, maxNS: size.maxNS})
		}
		text := plain(size.bytes)
		add(queries(text), "Query")
		add(queries(text, int64(7)), "Query with an argument")
		add(execs(text), "Exec")
		add(execs(text, int64(7)), "Exec with an argument")
		add(execs(bulk(size.bytes)), "Exec of a bulk INSERT")
		add(queries(mixed(lookAlikes, size.bytes)), "Query full of look-alikes")
		for _, word := range letters {
			add(queries(full(word, size.bytes)), "Query full of %q", word)
		}
	}
	return append(ds,
		duel{what: "prepared statement, Query", prepare: prepared, maxNS: sizes[0].maxNS},
		duel{what: "Begin, Exec, Commit", prepare: transactions(plain(60))},
		duel{what: "2000 B, Query that names lock functions in a string", prepare: queries(naming(2000))})
}

func queries(text texter, args ...any) func(*sql.DB) (contest.Side, error) {
	return func(db *sql.DB) (contest.Side, error) {
		ctx := context.Background()
		return contest.Side{Run: func(i int) error {
			var n int64
			return db.QueryRowContext(ctx, text(i), args...).Scan(&n)
		}}, nil
	}
}

func execs(text texter, args ...any) func(*sql.DB) (contest.Side, error) {
	return func(db *sql.DB) (contest.Side, error) {
		ctx := context.Background()
		return contest.Side{Run: func(i int) error {
			_, err := db.ExecContext(ctx, text(i), args...)
			return err
		}}, nil
	}
}

func prepared(db *sql.DB) (contest.Side, error) {
	ctx := context.Background()
	stmt, err := db.PrepareContext(ctx, "SELECT name FROM orders WHERE id = 7")
	if err != nil {
		return contest.Side{}, err
	}
	run := func(int) error {
		var n int64
		return stmt.QueryRowContext(ctx).Scan(&n)
	}
	return contest.Side{Run: run, Close: stmt.Close}, nil
}

func transactions(text texter) func(*sql.DB) (contest.Side, error) {
	return func(db *sql.DB) (contest.Side, error) {
		ctx := context.Background()
		return contest.Side{Run: func(i int) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(ctx, text(i)); err != nil {
				return err
			}
			return tx.Commit()
		}}, nil
	}
}
