package testbed

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/lib/pq" // registers "postgres"
	"go.uber.org/goleak"
)

// TestMain is [Main], with a look for goroutines before the servers are stopped.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		stopAll()
		os.Exit(code)
	}))
}

type kind struct {
	name    string
	shared  func(testing.TB) *Server
	private func(testing.TB, ...string) *Server
}

// kinds has a shared and a private server of each kind.
var kinds = []kind{
	{KindPostgres, Postgres, StartPostgres},
	{KindMariaDB, MariaDB, StartMariaDB},
	{KindMySQL, MySQL, StartMySQL},
}

func eachKind(t *testing.T, test func(t *testing.T, kind kind)) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

func TestSharedServer(t *testing.T) {
	eachKind(t, func(t *testing.T, kind kind) {
		s := kind.shared(t)
		if s != kind.shared(t) {
			t.Error("two calls gave two servers")
		}
		if s.Host != "127.0.0.1" || s.Port == 0 || s.Version == "" {
			t.Errorf("server is %s:%d, version %q", s.Host, s.Port, s.Version)
		}
		query(t, s.Outside(t), "SELECT 1")
	})
}

func TestPostgresURLIsForLibPQToo(t *testing.T) {
	db, err := sql.Open("postgres", Postgres(t).NewDatabase(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	query(t, db, "SELECT 1")
}

func TestNewDatabase(t *testing.T) {
	eachKind(t, func(t *testing.T, kind kind) {
		s := kind.shared(t)
		var own *Server
		t.Run("own", func(t *testing.T) {
			own = s.NewDatabase(t)
			if own.database == s.database || own.Port != s.Port {
				t.Errorf("got %s beside %s", own.DSN(), s.DSN())
			}
			execute(t, own.Outside(t), "CREATE TABLE t (a int)")
		})
		if err := own.exec("SELECT 1"); err == nil {
			t.Errorf("%s outlives its test", own.DSN())
		}
	})
}

func TestArguments(t *testing.T) {
	t.Parallel()
	var got string
	db := StartPostgres(t, "max_connections=33").Outside(t)
	if err := db.QueryRow("SHOW max_connections").Scan(&got); err != nil || got != "33" {
		t.Errorf("max_connections = %q, %v", got, err)
	}
	db = StartMariaDB(t, "--max-connections=33").Outside(t)
	if err := db.QueryRow("SELECT @@max_connections").Scan(&got); err != nil || got != "33" {
		t.Errorf("max_connections = %q, %v", got, err)
	}
}

func TestBadArgumentSaysWhy(t *testing.T) {
	t.Parallel()
	Postgres(t) // or skip
	_, err := postgres.start([]string{"no_such_setting=1"})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("got %v, want the server's own words", err)
	}
}

func TestTakenPort(t *testing.T) {
	eachKind(t, func(t *testing.T, kind kind) {
		s := kind.shared(t)
		p, err := s.program.engine.prepare(s.program.bin, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.remove()
		p.port = s.Port
		if _, err := p.run(); err == nil || !portTaken(err) {
			t.Errorf("starting on a taken port: %v", err)
		}
	})
}

func TestMissingServer(t *testing.T) {
	none := &engine{kind: "NoSuchServer", find: func() (string, error) { return lookPath("no-such-server") }}
	for env, want := range map[string]string{"": "skip", "1": "fatal"} {
		t.Setenv("SQLLOCK_REQUIRE_SERVERS", env)
		got := watch(func(t testing.TB) { shared(t, none) })
		if got.how != want || !strings.Contains(got.text, "no-such-server is neither in PATH") {
			t.Errorf("SQLLOCK_REQUIRE_SERVERS=%q: %s %q, want %s", env, got.how, got.text, want)
		}
	}
}

// A run about one kind of server skips the others, whatever it requires.
func TestOneServerOnly(t *testing.T) {
	t.Setenv("SQLLOCK_REQUIRE_SERVERS", "1")
	t.Setenv("SQLLOCK_ONLY", KindMySQL)
	for _, e := range []*engine{postgres, mariadb} {
		for name, start := range map[string]func(t testing.TB){
			"shared":  func(t testing.TB) { fresh := *e; shared(t, &fresh) },
			"private": func(t testing.TB) { startPrivate(t, e, nil) },
		} {
			got := watch(start)
			if want := "no " + e.kind + ": this run is about MySQL alone"; got != (outcome{"skip", want}) {
				t.Errorf("%s: %+v, want a skip: %s", name, got, want)
			}
		}
	}
	if err := pgbouncer("session").wanted(); err != nil {
		t.Error(err)
	}
}

// The environment may say where a program is; then no other one is taken.
func TestProgramFromTheEnvironment(t *testing.T) {
	for env, e := range map[string]*engine{"SQLLOCK_POSTGRES_BIN": postgres, "SQLLOCK_MARIADB_BIN": mariadb, "SQLLOCK_MYSQL_BIN": mysqld} {
		t.Setenv(env, "")
		bin, err := e.find()
		if err != nil {
			t.Skip(err)
		}
		t.Setenv(env, filepath.Dir(bin))
		if again, err := e.find(); again != bin || err != nil {
			t.Errorf("%s: found %s, %v, want %s", env, again, err, bin)
		}
		t.Setenv(env, t.TempDir())
		if other, err := e.find(); err == nil || !strings.Contains(err.Error(), env) {
			t.Errorf("%s of an empty folder: found %s, %v", env, other, err)
		}
	}
}

// With a DSN in the environment the test bed uses that server, and starts none.
func TestServerFromTheEnvironment(t *testing.T) {
	for _, e := range []*engine{postgres, mariadb, mysqld} {
		t.Run(e.kind, func(t *testing.T) {
			running := shared(t, e)
			fromEnv := *e
			t.Setenv(e.env, running.DSN())
			s := shared(t, &fromEnv)
			if s.program != nil || s.DSN() != running.DSN() || s.Version != running.Version || s.Kind != running.Kind {
				t.Errorf("got %+v, want %+v", s, running)
			}
			own := s.NewDatabase(t)
			conn, end := session(t, own)
			execute(t, conn, heldCases[s.Kind][0].does[0])
			if held := own.Held(t); len(held) != 1 {
				t.Errorf("held = %q", held)
			}
			end()
			own.AwaitFree(t, 5*time.Second)
		})
	}
}

func TestSharedServerCannotBeKilled(t *testing.T) {
	s := Postgres(t)
	if got := watch(func(t testing.TB) { s.Kill9(t) }); got.how != "fatal" {
		t.Errorf("got %+v", got)
	}
}

func TestPgBouncer(t *testing.T) {
	for _, mode := range []string{"session", "transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := PgBouncer(t, mode).NewDatabase(t)
			err := s.exec("BEGIN; SELECT 1; COMMIT") // one statement string, so that it runs in one go
			if mode != "statement" && err != nil {
				t.Errorf("through the pooler: %v", err)
			}
			if err := s.Via(NewProxy(t, s.Addr())).exec("SELECT 1"); err != nil {
				t.Errorf("through a proxy and the pooler: %v", err)
			}
		})
	}
}

// A session lock taken through a transaction pooler stays with the pooler's own connection.
func TestPgBouncerStrandsALock(t *testing.T) {
	t.Parallel()
	s := PgBouncer(t, "transaction").NewDatabase(t)
	if err := s.exec("SELECT pg_advisory_lock(7)"); err != nil {
		t.Fatal(err)
	}
	if held := s.Held(t); len(held) != 1 {
		t.Errorf("held = %q", held)
	}
}

func query(t *testing.T, db *sql.DB, q string) {
	t.Helper()
	var got int
	if err := db.QueryRowContext(t.Context(), q).Scan(&got); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

func execute(t *testing.T, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, q string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), q); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}
