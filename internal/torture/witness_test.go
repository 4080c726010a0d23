package torture

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/sqllock/sqllock/internal/testbed"
)

// A witness is a database on a server that no fault strikes. Each worker tells it what it does, and writes to its
// table fence what a lock protects.
type witness struct {
	db       *sql.DB
	name     string // of the worker
	sections atomic.Int64
}

const witnessTables = `
CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, worker text NOT NULL, event jsonb NOT NULL);
CREATE TABLE fence (key text PRIMARY KEY, token bigint NOT NULL)`

func newWitness(t testing.TB) *testbed.Server {
	s := testbed.Postgres(t).NewDatabase(t)
	if _, err := s.Outside(t).ExecContext(t.Context(), witnessTables); err != nil {
		t.Fatal(err)
	}
	return s
}

// openWitness is the worker's end, also that of a command that a worker has started.
func openWitness() (*witness, error) {
	db, err := sql.Open("pgx", os.Getenv(envWitness))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(loops + 2)
	db.SetMaxIdleConns(loops + 2)
	return &witness{db: db, name: os.Getenv(envName)}, db.Ping()
}

// tell returns when e has been stored: it then survives that the worker is killed.
func (w *witness) tell(e event) {
	text, err := json.Marshal(e)
	if err == nil {
		_, err = w.db.ExecContext(context.Background(), "INSERT INTO events (worker, event) VALUES ($1, $2)", w.name, string(text))
	}
	if err != nil {
		panic(err)
	}
}

// fenced writes as the holder with a token does, and says whether the resource took it.
func (w *witness) fenced(key string, token int64) bool {
	done, err := w.db.ExecContext(context.Background(), `INSERT INTO fence AS f VALUES ($1, $2)
		ON CONFLICT (key) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token`, key, token)
	if err != nil {
		panic(err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		panic(err)
	}
	return n == 1
}

// told returns the events of each worker, in order.
func told(t testing.TB, s *testbed.Server) map[string][]event {
	rows, err := s.Outside(t).QueryContext(t.Context(), "SELECT worker, event FROM events ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := map[string][]event{}
	for rows.Next() {
		var worker string
		var text []byte
		var e event
		if err := rows.Scan(&worker, &text); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		all[worker] = append(all[worker], e)
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return all
}
