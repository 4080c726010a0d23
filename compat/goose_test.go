package compat

import (
	"context"
	"database/sql"
	"io/fs"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// goose makes a provider, on PostgreSQL with goose's own session lock. It has none for MySQL.
func (p *pool) goose(files fs.FS, options ...goose.ProviderOption) *goose.Provider {
	p.Helper()
	dialect := goose.DialectMySQL
	if p.postgres {
		dialect = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker()
		p.must(err)
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(dialect, p.db, files, options...)
	p.must(err)
	return provider
}

func workGoose(p *play) {
	provider := p.goose(fstest.MapFS{
		"1_people.sql": {Data: []byte("-- +goose Up\nCREATE TABLE people (id int PRIMARY KEY);\n-- +goose Down\nDROP TABLE people;\n")},
		"2_ada.sql":    {Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\nINSERT INTO people VALUES (1);\n-- +goose Down\nDELETE FROM people;\n")},
	}, goose.WithGoMigrations(goose.NewGoMigration(3, &goose.GoFunc{RunTx: graceUp}, &goose.GoFunc{RunTx: graceDown})))
	p.stepsGoose(provider.Up(p.ctx))
	version, err := provider.GetDBVersion(p.ctx)
	p.saw("version", version, err)
	p.stepsGoose(provider.DownTo(p.ctx, 0))
	p.stepsGoose(provider.Up(p.ctx))
	p.stepsGoose(provider.Up(p.ctx)) // finds nothing to do
	status, err := provider.Status(p.ctx)
	p.must(err)
	for _, s := range status {
		p.saw("status", s.Source.Version, s.State)
	}
}

func graceUp(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO people VALUES (2)")
	return err
}

func graceDown(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM people WHERE id = 2")
	return err
}

func (p *play) stepsGoose(results []*goose.MigrationResult, err error) {
	p.Helper()
	p.must(err)
	p.saw("steps", len(results))
	for _, r := range results {
		p.saw("step", r.Source.Version, r.Direction, r.Error)
	}
}

var leaksGoose = []leak{
	{"goose", "session locker; a `NO TRANSACTION` migration fails within a BEGIN of its own, and the unlock with it", failGoose, nil},
	{"goose", "session locker; the context ends during `Up`", cancelGoose, nil},
}

// In a transaction that has failed the server refuses the unlock; goose returns its error and the connection.
func failGoose(p *pool) {
	_, err := p.goose(fstest.MapFS{"1_fails.sql": {Data: []byte(
		"-- +goose NO TRANSACTION\n-- +goose Up\nBEGIN;\nSELECT no_such_function();\nCOMMIT;\n")}}).Up(p.Context())
	p.fails(err)
}

func cancelGoose(p *pool) {
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	interrupted := goose.NewGoMigration(1, &goose.GoFunc{RunDB: func(context.Context, *sql.DB) error {
		cancel()
		return nil
	}}, nil)
	_, err := p.goose(nil, goose.WithGoMigrations(interrupted)).Up(ctx)
	p.fails(err)
}

func (p *pool) fails(err error) {
	p.Helper()
	if err == nil {
		p.Fatalf("%s: no error", p.driver)
	}
}
