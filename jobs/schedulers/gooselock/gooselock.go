// Package gooselock lets replicas that migrate with [github.com/pressly/goose/v3] take turns, on PostgreSQL, MySQL and MariaDB.
//
//	provider, err := goose.NewProvider(goose.DialectMySQL, db, migrations, goose.WithSessionLocker(gooselock.New(sqllock.NewMySQL(db))))
package gooselock

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/pressly/goose/v3/lock"

	"github.com/sqllock/sqllock"
)

var _ lock.SessionLocker = (*SessionLocker)(nil)

// OnConn is what [sqllock.Postgres] and [sqllock.MySQL] can do: lock on a connection of the caller's.
type OnConn interface {
	OnConn(conn *sql.Conn) sqllock.Locker
}

// A SessionLocker locks the connection that goose migrates on, so that the migration ends if the lock is lost.
// It is safe for concurrent use.
type SessionLocker struct {
	l   OnConn
	key sqllock.Key

	mu   sync.Mutex
	held map[*sql.Conn]*sqllock.Lock // guarded by mu
}

// New returns a SessionLocker whose key is [sqllock.GooseKey], so that on PostgreSQL it and goose's own locker exclude
// each other.
func New(l OnConn) *SessionLocker { return WithKey(l, sqllock.GooseKey()) }

// WithKey is [New] with another key. On MySQL, whose names are the whole server's, give each database its own, such as
// sqllock.Namespace("goose").Name(database).
func WithKey(l OnConn, key sqllock.Key) *SessionLocker {
	return &SessionLocker{l: l, key: key, held: map[*sql.Conn]*sqllock.Lock{}}
}

// SessionLock waits until it holds the key or ctx ends.
func (s *SessionLocker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	held, err := s.l.OnConn(conn).Acquire(ctx, s.key)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[conn] = held
	return nil
}

// SessionUnlock releases the key whatever its context says. [sqllock.ErrLost] means that the migration was not protected to
// its end.
func (s *SessionLocker) SessionUnlock(_ context.Context, conn *sql.Conn) error {
	s.mu.Lock()
	held := s.held[conn]
	delete(s.held, conn)
	s.mu.Unlock()
	if held == nil {
		return errors.New("gooselock: SessionUnlock of a connection that SessionLock has not locked")
	}
	return held.Release()
}
