package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/jobs"
)

// A slotRecord is what --json shows of one slot.
type slotRecord struct {
	Job      string    `json:"job"`
	Slot     time.Time `json:"slot"`
	Status   string    `json:"status"`
	Attempt  int       `json:"attempt"`
	Token    int64     `json:"token"`
	Host     string    `json:"host"`
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
	Error    string    `json:"error,omitempty"`
}

func (a *app) historyCommand() *cobra.Command {
	var job, tableName string
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "history",
		Short:   "Show what became of the slots of jobs",
		Long:    `history shows the table that sqllock run --once and package jobs keep: one line a slot, the latest first.`,
		Example: "  sqllock history --key nightly\n  sqllock history --json | jq '.[] | select(.status == \"failed\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, dialect, err := a.open("sqllock history", false)
			if err != nil {
				return err
			}
			defer db.Close()
			var l sqllock.Locker = sqllock.NewPostgres(db)
			if dialect == sqllock.DialectMySQL {
				l = sqllock.NewMySQL(db)
			}
			ledger := jobs.NewLedger(db, l, jobs.WithTable(tableName))
			runs, err := ledger.Runs(cmd.Context(), job, limit)
			if errors.Is(err, jobs.ErrNoTable) {
				return &exit{exConfig, err.Error()}
			}
			if err != nil {
				return err
			}
			return a.showHistory(runs, asJSON)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&job, "key", "k", "", "one job; all without")
	fs.StringVar(&tableName, "table", jobs.DefaultTable, "the table")
	fs.IntVar(&limit, "limit", 20, "at most so many slots")
	fs.BoolVar(&asJSON, "json", false, "for a program")
	return cmd
}

var historyColumns = []column{{"JOB", 20}, {"SLOT", 20}, {"STATUS", 9}, {"TRY", 3}, {"STARTED", 15}, {"TOOK", 6}, {"HOST", 15}, {"ERROR", 20}}

func (a *app) showHistory(runs []jobs.Record, asJSON bool) error {
	if asJSON {
		records := make([]slotRecord, len(runs))
		for i, r := range runs {
			records[i] = slotRecord{r.Job, r.Slot, r.Status, r.Attempt, r.Token, r.Host, r.Started, r.Finished, r.Error}
		}
		return writeJSON(a.out, records)
	}
	if len(runs) == 0 {
		_, err := fmt.Fprintln(a.out, "no slot has been run")
		return err
	}
	var rows [][]string
	for _, r := range runs {
		rows = append(rows, historyRow(r))
	}
	width, _ := size(a.out)
	_, err := fmt.Fprintln(a.out, strings.Join(table(historyColumns, rows, width), "\n"))
	return err
}

func historyRow(r jobs.Record) []string {
	slot, started, took := r.Slot.Local().Format("2006-01-02 15:04"), "", ""
	if !r.Started.IsZero() {
		started = r.Started.Local().Format(time.DateTime)
	}
	if !r.Finished.IsZero() && !r.Started.IsZero() {
		took = ago(r.Finished, r.Started)
	}
	return []string{printable(r.Job), slot, r.Status, fmt.Sprint(r.Attempt), started, took, printable(r.Host), printable(r.Error)}
}
