package testbed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// StartStandby starts a streaming standby of s, which must be a PostgreSQL server of t's alone, and returns when it
// streams. It ends with t. Each conf is one setting, "key=value".
//
// s commits without waiting for it: see [Server.Synchronous]. The standby has s's databases: reach the one that
// [Server.NewDatabase] made on s by [Server.At].
func (s *Server) StartStandby(t testing.TB, conf ...string) *Server {
	t.Helper()
	standby, err := s.own(t).startStandby(conf)
	if err != nil {
		t.Fatalf("testbed: no standby: %v", err)
	}
	standby.private = true
	t.Cleanup(standby.program.remove)
	s.awaitTrue(t, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming' AND application_name = $1)`, standby.program.name)
	return standby
}

// Synchronous makes every later commit of s wait until its standby has applied it, if the session's synchronous_commit is
// "remote_apply", or has it, if that is "on". The test bed's own setting is off: start s with "synchronous_commit=on".
func (s *Server) Synchronous(t testing.TB) {
	t.Helper()
	s.own(t)
	for _, q := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if err := s.direct().exec(q); err != nil {
			t.Fatalf("testbed: %s: %v", q, err)
		}
	}
	s.awaitTrue(t, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')`)
}

// Promote makes a standby a primary, and returns when it is one. What it was a standby of goes on by itself: a test
// that wants a failover kills it first.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.own(t)
	s.awaitTrue(t, `SELECT pg_promote(true, 60)`)
	s.awaitTrue(t, `SELECT NOT pg_is_in_recovery()`)
}

// At returns the database of s at another server that has it, too: at s's standby.
func (s *Server) At(other *Server) *Server { return other.withDatabase(s.database) }

// startStandby makes a copy of a running server and runs it.
func (p *program) startStandby(conf []string) (*Server, error) {
	e := *p.engine
	e.fill = nil // not from a template
	copied, err := e.prepare(p.bin, conf)
	if err != nil {
		return nil, err
	}
	if err := p.backUp(copied); err != nil {
		copied.remove()
		return nil, err
	}
	version, err := copied.runOnFreePort()
	if err != nil {
		copied.remove()
		return nil, err
	}
	s := copied.server()
	s.Version = version
	return s, nil
}

// backUp copies a running server's data folder, by the functions that pg_basebackup, which not every build has, uses too.
func (p *program) backUp(to *program) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	db, err := p.server().open()
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := db.Conn(ctx) // a backup is its session's
	if err != nil {
		return err
	}
	defer c.Close()
	start, stop := "SELECT pg_backup_start('standby', true)", "SELECT labelfile FROM pg_backup_stop()"
	var version int
	if err := c.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	if version < 150000 {
		start, stop = "SELECT pg_start_backup('standby', true, false)", "SELECT labelfile FROM pg_stop_backup(false)"
	}
	if _, err := c.ExecContext(ctx, start); err != nil {
		return err
	}
	if err := copyRunning(to.data(), p.data()); err != nil {
		return err
	}
	var label string
	if err := c.QueryRowContext(ctx, stop).Scan(&label); err != nil {
		return err
	}
	primary := fmt.Sprintf("primary_conninfo = 'host=127.0.0.1 port=%d user=%s'\n", p.port, p.engine.login.user)
	for name, text := range map[string]string{"backup_label": label, "standby.signal": "", "postgresql.auto.conf": primary} {
		if err := appendTo(filepath.Join(to.data(), name), text); err != nil {
			return err
		}
	}
	return give(to.dir, p.engine.user())
}

// copyRunning copies a data folder in which files come and go. What is the running server's own alone is left out.
func copyRunning(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(from, path)
		switch {
		case entry.IsDir():
			return os.Mkdir(filepath.Join(to, name), 0o700)
		case filepath.Dir(name) == "pg_wal", strings.HasPrefix(name, "pg_replslot/"), strings.HasPrefix(name, "postmaster."):
			return nil // it streams the log
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), content, 0o600)
	})
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// awaitTrue waits until s answers true.
func (s *Server) awaitTrue(t testing.TB, query string, args ...any) {
	t.Helper()
	db := s.Outside(t)
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for ok := false; !ok; time.Sleep(5 * time.Millisecond) {
		if err := db.QueryRowContext(ctx, query, args...).Scan(&ok); err != nil {
			t.Fatalf("testbed: %s: %v", query, err)
		}
		if ok {
			return
		}
	}
}
