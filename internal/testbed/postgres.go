package testbed

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

var postgres = &engine{
	kind:  KindPostgres,
	env:   "SQLLOCK_POSTGRES_DSN",
	parse: parsePostgres,
	find: func() (string, error) {
		return lookProgram("SQLLOCK_POSTGRES_BIN", "postgres", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")
	},
	fill:         initdb,
	recipe:       "1",
	command:      postgresCommand,
	login:        Server{user: "test", password: "test", database: "postgres", params: "sslmode=disable"},
	hello:        postgresHello,
	sweep:        removeSharedMemory,
	unprivileged: true,
	fast:         syscall.SIGINT,
	immediate:    syscall.SIGQUIT,
}

// initdb makes a data folder that trusts every local client: the password is in our sources anyway.
func initdb(h helper) error {
	return h.run([]string{filepath.Join(filepath.Dir(h.bin), "initdb"), "-D", h.dir, "-U", "test", "--auth=trust",
		"--encoding=UTF8", "--no-locale", "--no-sync", "--wal-segsize=1"}, "") // small segments copy fast
}

// postgresCommand trades durability for speed and keeps off everything that outlives a killed server: sockets in
// /tmp and shared memory in /dev/shm.
func postgresCommand(p *program) []string {
	argv := []string{p.bin, "-D", p.data(), "-p", fmt.Sprint(p.port)}
	conf := []string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=", "dynamic_shared_memory_type=mmap",
		"cluster_name=" + p.name, "max_connections=200", "shared_buffers=32MB",
		"fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off", "max_wal_size=64MB",
	}
	for _, setting := range append(conf, p.args...) {
		argv = append(argv, "-c", setting)
	}
	return argv
}

func postgresHello(ctx context.Context, s *Server) (name, version string, err error) {
	err = s.ask(ctx, `SELECT current_setting('cluster_name'), current_setting('server_version')`, &name, &version)
	version, _, _ = strings.Cut(version, " ") // "15.18 (Debian 15.18-0+deb12u1)"
	return name, version, err
}

// removeSharedMemory removes the segment by which a PostgreSQL that was killed keeps a second one off its data folder.
// The pid file, which only a killed one leaves, has its id in the seventh line.
func removeSharedMemory(p *program) {
	pidFile, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
	if err != nil {
		return
	}
	if lines := strings.Split(string(pidFile), "\n"); len(lines) > 6 {
		if segment := strings.Fields(lines[6]); len(segment) == 2 { // its key and its id
			exec.Command("ipcrm", "-m", segment[1]).Run()
		}
	}
}

// parsePostgres reads a postgres:// URL.
func parsePostgres(dsn string) (*Server, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("the DSN is no postgres:// URL but %q", u.Scheme)
	}
	if u.Port() == "" {
		u.Host += ":5432"
	}
	s := &Server{Kind: KindPostgres, user: u.User.Username(), database: strings.TrimPrefix(u.Path, "/"), params: u.RawQuery}
	s.password, _ = u.User.Password()
	s.Host, s.Port = splitAddr(u.Host)
	_, s.Version, err = postgresHello(context.Background(), s)
	return s, err
}
