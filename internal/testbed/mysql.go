package testbed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	mysqldriver "github.com/go-sql-driver/mysql"
)

var mariadb = &engine{
	kind:  KindMariaDB,
	env:   "SQLLOCK_MARIADB_DSN",
	parse: func(dsn string) (*Server, error) { return parseMySQL(KindMariaDB, dsn) },
	find: func() (string, error) {
		return lookProgram("SQLLOCK_MARIADB_BIN", "mariadbd", "/usr/sbin", "/usr/libexec", "/usr/local/sbin")
	},
	fill:      installMariaDB,
	recipe:    "1" + accounts,
	command:   mariadbCommand,
	login:     mysqlLogin,
	hello:     mysqlHello,
	fast:      syscall.SIGTERM,
	immediate: syscall.SIGKILL,
}

var mysqld = &engine{
	kind:      KindMySQL,
	env:       "SQLLOCK_MYSQL_DSN",
	parse:     func(dsn string) (*Server, error) { return parseMySQL(KindMySQL, dsn) },
	find:      findMySQL,
	fill:      initializeMySQL,
	recipe:    "1" + accounts,
	command:   mysqlCommand,
	login:     mysqlLogin,
	hello:     mysqlHello,
	fast:      syscall.SIGTERM,
	immediate: syscall.SIGKILL,
}

var mysqlLogin = Server{user: "test", password: "test", database: "test"}

// accounts is run once, one statement a line, as --init-file and --bootstrap want them.
const accounts = `CREATE USER 'test'@'%' IDENTIFIED BY 'test';
GRANT ALL ON *.* TO 'test'@'%' WITH GRANT OPTION;
CREATE DATABASE test;
`

// commonMySQL is what both servers understand. Durability is traded for speed; the performance schema is how
// Held sees locks.
func commonMySQL(dir string) []string {
	args := []string{
		"--datadir=" + dir,
		// A server that starts sweeps the folder of temporary tables. MariaDB 10.11 crashes when another has swept its own.
		"--tmpdir=" + filepath.Dir(dir),
		"--skip-log-bin", "--innodb-buffer-pool-size=32M", "--innodb-use-native-aio=0",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-log-buffer-size=1M", "--innodb-doublewrite=OFF", "--max-connections=200",
		"--performance-schema=ON", "--performance-schema-instrument=wait/lock/metadata/sql/mdl=ON",
	}
	if isRoot() {
		args = append(args, "--user=root") // or it refuses to start
	}
	return args
}

// listen is where a server listens and how it answers mysqlHello.
func listen(p *program) []string {
	return []string{
		fmt.Sprint("--port=", p.port), "--bind-address=127.0.0.1", "--skip-name-resolve", "--report-host=" + p.name,
		"--socket=" + filepath.Join(p.dir, "s"), "--pid-file=" + filepath.Join(p.dir, "pid"),
	}
}

const smallMariaDBLog = "--innodb-log-file-size=8M" // the default's 96M take long to copy

func installMariaDB(h helper) error {
	install, err := findInstallDB(filepath.Dir(h.bin))
	if err != nil {
		return err
	}
	common := append([]string{smallMariaDBLog}, commonMySQL(h.dir)...)
	argv := []string{install, "--no-defaults", basedir(h.bin), "--auth-root-authentication-method=normal", "--skip-test-db"}
	if err := h.run(append(argv, common...), ""); err != nil {
		return err
	}
	return h.run(append([]string{h.bin, "--no-defaults", basedir(h.bin), "--bootstrap"}, common...), "FLUSH PRIVILEGES;\n"+accounts)
}

// findInstallDB prefers the program that came with the server: PATH may have another version's, which does not fit.
func findInstallDB(folder string) (string, error) {
	const name = "mariadb-install-db"
	if own := filepath.Join(folder, "../bin", name); isProgram(own) {
		return own, nil
	}
	return lookPath(name, filepath.Join(folder, "../scripts"))
}

func mariadbCommand(p *program) []string {
	argv := append([]string{p.bin, "--no-defaults", basedir(p.bin), smallMariaDBLog, "--innodb-flush-method=nosync"}, commonMySQL(p.data())...)
	return append(append(argv, listen(p)...), p.args...)
}

// findMySQL looks for a real MySQL: on Debian, mysqld in PATH is MariaDB's.
func findMySQL() (string, error) {
	if bin := filepath.Join(cacheDir(), "debian/mysql/root/usr/sbin/mysqld"); os.Getenv(mysqlBin) == "" && isProgram(bin) {
		return bin, nil
	}
	bin, err := lookProgram(mysqlBin, "mysqld", "/usr/sbin", "/usr/libexec", "/usr/local/mysql/bin")
	if err != nil {
		return "", err
	}
	version, err := exec.Command(bin, "--version").Output()
	if err != nil || strings.Contains(string(version), "MariaDB") {
		return "", fmt.Errorf("the mysqld in PATH is not MySQL's but %s", bin)
	}
	return bin, nil
}

const mysqlBin = "SQLLOCK_MYSQL_BIN"

// basedir is where bin finds what was installed, or unpacked, with it.
func basedir(bin string) string { return "--basedir=" + filepath.Dir(filepath.Dir(bin)) }

const smallMySQLLog = "--innodb-redo-log-capacity=8M"

func initializeMySQL(h helper) error {
	sql := h.dir + ".sql"
	if err := os.WriteFile(sql, []byte(accounts), 0o644); err != nil {
		return err
	}
	defer os.Remove(sql)
	argv := append([]string{h.bin, "--no-defaults", basedir(h.bin)}, "--initialize-insecure", "--init-file="+sql, smallMySQLLog)
	if err := h.run(append(argv, commonMySQL(h.dir)...), ""); err != nil {
		return err
	}
	return os.Remove(filepath.Join(h.dir, "auto.cnf")) // the server's identity, which copies must not share
}

func mysqlCommand(p *program) []string {
	argv := append([]string{p.bin, "--no-defaults", basedir(p.bin)}, smallMySQLLog, "--innodb-flush-method=nosync", "--mysqlx=OFF", "--secure-file-priv=NULL")
	argv = append(argv, commonMySQL(p.data())...)
	return append(append(argv, listen(p)...), p.args...)
}

func mysqlHello(ctx context.Context, s *Server) (name, version string, err error) {
	err = s.ask(ctx, "SELECT COALESCE(@@report_host, ''), VERSION()", &name, &version)
	return name, version, err
}

func parseMySQL(kind, dsn string) (*Server, error) {
	cfg, err := mysqldriver.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	if cfg.Net != "tcp" {
		return nil, fmt.Errorf("the DSN's network is %q; the test bed knows tcp", cfg.Net)
	}
	s := &Server{Kind: kind, user: cfg.User, password: cfg.Passwd, database: cfg.DBName, wide: true}
	s.Host, s.Port = splitAddr(cfg.Addr)
	_, s.params, _ = strings.Cut(dsn, "?")
	_, s.Version, err = mysqlHello(context.Background(), s)
	return s, err
}
