package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sqllock/sqllock"
)

// keyFlags are how a key is named.
type keyFlags struct {
	name, namespace string
	id, pair        string
}

func (k *keyFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&k.name, "key", "k", "", "the lock's name, of any text")
	f.StringVar(&k.namespace, "namespace", "", "keeps the names of one application apart from all others")
	f.StringVar(&k.id, "id", "", "a bigint instead of a name, as in PostgreSQL's pg_advisory_lock(bigint)")
	f.StringVar(&k.pair, "pair", "", "two ints instead of a name, as \"1,2\": PostgreSQL's pg_advisory_lock(int, int)")
}

// key reads the flags: exactly one of them.
func (k *keyFlags) key() (key sqllock.Key, name string, err error) {
	given := 0
	for _, v := range []string{k.name, k.id, k.pair} {
		if v != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return key, "", usage("which lock? Give one of --key NAME, --id NUMBER and --pair A,B")
	case k.namespace != "" && k.name == "":
		return key, "", usage("--namespace goes with --key")
	case k.id != "":
		id, err := strconv.ParseInt(k.id, 10, 64)
		if err != nil {
			return key, "", usage(fmt.Sprintf("--id %s is not a number between -2^63 and 2^63-1", echo(k.id)))
		}
		return sqllock.ID(id), k.id, nil
	case k.pair != "":
		return pairKey(k.pair)
	}
	return nameKey(k.namespace, k.name)
}

func nameKey(namespace, name string) (sqllock.Key, string, error) {
	if !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return sqllock.Key{}, "", usage(fmt.Sprintf("the key %q is not text", shorten(name, 100)))
	}
	if namespace != "" {
		return sqllock.Namespace(namespace).Name(name), namespace + "/" + name, nil
	}
	return sqllock.Name(name), name, nil
}

func pairKey(pair string) (sqllock.Key, string, error) {
	left, right, _ := strings.Cut(pair, ",")
	a, errA := strconv.ParseInt(strings.TrimSpace(left), 10, 32)
	b, errB := strconv.ParseInt(strings.TrimSpace(right), 10, 32)
	if errA != nil || errB != nil {
		return sqllock.Key{}, "", usage(fmt.Sprintf("--pair %s is not two numbers between -2^31 and 2^31-1, as 1,2", echo(pair)))
	}
	return sqllock.Pair(int32(a), int32(b)), pair, nil
}

// spelled is a key as the server shows it.
func spelled(d sqllock.Dialect, k sqllock.Key, pair bool) string {
	switch {
	case d == sqllock.DialectMySQL:
		return k.MySQLName()
	case pair:
		return k.String()
	}
	return strconv.FormatInt(k.Int64(), 10)
}

// keyInfo is what `sqllock key` shows.
type keyInfo struct {
	Key        string `json:"key"`
	Postgres   int64  `json:"postgres"` // the bigint
	ClassID    uint32 `json:"classid"`  // as pg_locks shows it
	ObjID      uint32 `json:"objid"`
	MySQL      string `json:"mysql"`
	Migrate    int64  `json:"golang_migrate"` // where the name is a database's
	Rails      int64  `json:"rails"`
	Goose      int64  `json:"goose"`
	FromSQL    string `json:"from_sql,omitempty"`
	FromPython string `json:"from_python,omitempty"`
}

func (a *app) keyCommand() *cobra.Command {
	var namespace string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "key NAME",
		Short: "Show how a name is spelled on each server, and to other tools",
		Long: `key shows the bigint and the MySQL name that lock NAME, so that psql users and programs in other languages meet the
same lock. It connects to nothing. Taken as a database's name, NAME also gives the keys of golang-migrate and Rails.`,
		Example: "  sqllock key daily-settlement\n  psql -c \"SELECT pg_try_advisory_lock($(sqllock key daily-settlement --json | jq .postgres))\"",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("key takes one name: sqllock key NAME")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			key, name, err := nameKey(namespace, args[0])
			if err != nil {
				return err
			}
			info := describeKey(key, name, namespace == "")
			if asJSON {
				return writeJSON(a.out, info)
			}
			return info.write(a.out)
		},
	}
	cmd.Flags().StringVar(&namespace, "namespace", "", "keeps the names of one application apart from all others")
	cmd.Flags().BoolVar(&asJSON, "json", false, "for a program")
	return cmd
}

func describeKey(key sqllock.Key, name string, plain bool) keyInfo {
	id := key.Int64()
	info := keyInfo{
		Key: name, Postgres: id, ClassID: uint32(uint64(id) >> 32), ObjID: uint32(id), MySQL: key.MySQLName(),
		Migrate: sqllock.MigrateKey(name).Int64(), Rails: sqllock.RailsKey(name).Int64(), Goose: sqllock.GooseKey().Int64(),
	}
	if plain {
		info.FromSQL = fmt.Sprintf("SELECT ('x' || left(encode(sha256(%s), 'hex'), 16))::bit(64)::bigint", bytesInSQL(name))
		info.FromPython = fmt.Sprintf("int.from_bytes(hashlib.sha256(%q.encode()).digest()[:8], signed=True)", name)
	}
	return info
}

// bytesInSQL writes what a terminal or a server's setting could read otherwise as the bytes that it is.
func bytesInSQL(name string) string {
	if printable(name) != name || strings.Contains(name, `\`) {
		return fmt.Sprintf(`'\x%x'::bytea`, name)
	}
	return "convert_to('" + strings.ReplaceAll(name, "'", "''") + "', 'UTF8')"
}

func (i keyInfo) write(w io.Writer) error {
	lines := [][2]string{
		{"PostgreSQL", fmt.Sprintf("SELECT pg_try_advisory_lock(%d)", i.Postgres)},
		{"pg_locks", fmt.Sprintf("classid %d, objid %d, objsubid 1", i.ClassID, i.ObjID)},
		{"MySQL, MariaDB", fmt.Sprintf("SELECT GET_LOCK('%s', 0)", i.MySQL)},
	}
	if i.FromSQL != "" {
		lines = append(lines, [2]string{"computed in SQL", i.FromSQL}, [2]string{"in Python", i.FromPython})
	}
	lines = append(lines,
		[2]string{"golang-migrate", fmt.Sprintf("%d, if %s is a database", i.Migrate, printable(i.Key))},
		[2]string{"Rails", fmt.Sprintf("%d, if %s is a database", i.Rails, printable(i.Key))},
		[2]string{"goose", fmt.Sprintf("%d, for every database", i.Goose)})
	for _, l := range lines {
		if _, err := fmt.Fprintf(w, "%-15s  %s\n", l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}
