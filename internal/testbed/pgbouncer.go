package testbed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// pgbouncers has one engine, and so one shared pooler, per pool mode.
var pgbouncers = map[string]*engine{
	"session":     pgbouncer("session"),
	"transaction": pgbouncer("transaction"),
	"statement":   pgbouncer("statement"),
}

// PgBouncer returns a pooler in mode "session", "transaction" or "statement" in front of [Postgres]. Tests of this
// process share it. NewDatabase, Outside and Held go to the server behind it.
func PgBouncer(t testing.TB, mode string) *Server {
	t.Helper()
	e := pgbouncers[mode]
	if e == nil {
		t.Fatalf("testbed: PgBouncer has no pool mode %q", mode)
	}
	pg := Postgres(t)
	s := *shared(t, e)
	s.database, s.behind = pg.database, pg
	return &s
}

func pgbouncer(mode string) *engine {
	return &engine{
		kind:         KindPgBouncer,
		find:         func() (string, error) { return lookPath("pgbouncer", "/usr/sbin", "/usr/local/bin") },
		configure:    func(p *program) error { return configurePgBouncer(p, mode) },
		command:      func(p *program) []string { return []string{p.bin, filepath.Join(p.dir, "pgbouncer.ini")} },
		login:        Server{user: "test", password: "test", database: "pgbouncer", params: "sslmode=disable"},
		hello:        pgbouncerHello,
		unprivileged: true,
		fast:         syscall.SIGINT,
		immediate:    syscall.SIGKILL,
	}
}

// configurePgBouncer lets any database pass, so that NewDatabase works behind it.
func configurePgBouncer(p *program, mode string) error {
	pg, err := sharedServer(postgres)()
	if err != nil {
		return err
	}
	ini := fmt.Sprintf(`[databases]
* = host=%s port=%d user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
pidfile = %[6]s/pid
auth_type = trust
auth_file = %[6]s/users
admin_users = test
pool_mode = %[7]s
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
`, pg.Host, pg.Port, pg.user, pg.password, p.port, p.dir, mode)
	if err := os.WriteFile(filepath.Join(p.dir, "users"), []byte(`"test" "test"`+"\n"), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.dir, "pgbouncer.ini"), []byte(ini), 0o644)
}

// pgbouncerHello asks the pooler's own console. Its name is that of the folder that its settings name.
func pgbouncerHello(ctx context.Context, s *Server) (name, version string, err error) {
	console := *s
	console.params += "&default_query_exec_mode=simple_protocol" // all that it speaks
	if err := console.ask(ctx, "SHOW VERSION", &version); err != nil {
		return "", "", err
	}
	db, err := console.open()
	if err != nil {
		return "", "", err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "SHOW CONFIG")
	if err != nil {
		return "", "", err
	}
	defer rows.Close()
	for rows.Next() {
		var key, changeable string
		var value, preset *string
		if err := rows.Scan(&key, &value, &preset, &changeable); err != nil {
			return "", "", err
		}
		if key == "pidfile" && value != nil {
			name = filepath.Base(filepath.Dir(*value))
		}
	}
	return name, strings.TrimPrefix(version, "PgBouncer "), rows.Err()
}
