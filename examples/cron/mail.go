package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/examples/internal/engine"
	"github.com/sqllock/sqllock/jobs"
)

// sendMail appends to a file, which is all the mail system that this story needs.
func sendMail(about string) error {
	file, err := os.OpenFile(os.Getenv("MAIL"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, about)
	return err
}

// An observer looks at the mail and at the database.
type observer struct {
	out    io.Writer
	mail   string
	locker sqllock.Locker
	ledger *jobs.Ledger
}

func newObserver(ctx context.Context, out io.Writer, dsn, mail string) (*observer, func(), error) {
	db, locker, err := engine.Open(dsn)
	if err != nil {
		return nil, nil, err
	}
	_, err = db.ExecContext(ctx, "DROP TABLE IF EXISTS job_runs") // of the last time the story was told
	o := &observer{out, mail, locker, jobs.NewLedger(db, locker)}
	return o, func() { db.Close() }, err
}

func (o *observer) count(day string) {
	text, _ := os.ReadFile(o.mail) // no file, no mail
	fmt.Fprintf(o.out, "=> e-mails about %s: %d\n", day, strings.Count(string(text), day+"\n"))
}

// awaitDeath returns when the server has seen that a replica is dead, which takes it a moment.
func (o *observer) awaitDeath(ctx context.Context) error {
	key, err := o.ledger.Key(ctx, job)
	if err != nil {
		return err
	}
	lock, err := o.locker.Acquire(ctx, key)
	if err != nil {
		return err
	}
	return lock.Release()
}
