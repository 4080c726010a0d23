package sqllock_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sqllock/sqllock"
)

// goldenKeys freeze how keys are spelled on the servers: programs of every version and language meet on these.
var goldenKeys = []struct {
	key   sqllock.Key
	id    int64
	mysql string
}{
	{sqllock.Name("daily-settlement"), -2533923874772390729, "daily-settlement"},
	{sqllock.Name("x"), 3274422879871479876, "x"},
	{sqllock.Name(""), -2039914840885289964, "~e3b0c44298fc1c149afbf4c8996fb924"},
	{sqllock.Key{}, -2039914840885289964, "~e3b0c44298fc1c149afbf4c8996fb924"},
	{sqllock.Name("Daily Settlement"), -6306729479846538588, "daily_settlement~a879fef3db4352a4cb3313e50e1d60e3"},
	{sqllock.Name("größe"), -3219050744914661377, "gr____e~d353a2671b67afff0941ae456e5c76e9"},
	{sqllock.Name(strings.Repeat("a", 64)), -8913747294762131, strings.Repeat("a", 64)},
	{sqllock.Name(strings.Repeat("a", 65)), 7157171729607551665, strings.Repeat("a", 31) + "~635361c48bb9eab14198e76ea8ab7f1a"},
	{sqllock.Namespace("billing").Name("x"), 3030316086138857612, "billing/x~2a0dd86ccf75688ca01929f7d36027b5"},
	{sqllock.ID(42), 42, "#42"},
	{sqllock.ID(math.MinInt64), math.MinInt64, "#-9223372036854775808"},
	{sqllock.Pair(1, -1), 1<<32 | 0xffffffff, "#1,-1"},
}

func TestKeysAreFrozen(t *testing.T) {
	for _, g := range goldenKeys {
		if id := g.key.Int64(); id != g.id {
			t.Errorf("%q: Int64() = %d, want %d", g.key, id, g.id)
		}
		if name := g.key.MySQLName(); name != g.mysql {
			t.Errorf("%q: MySQLName() = %q, want %q", g.key, name, g.mysql)
		}
	}
}

func spellings() string {
	var b strings.Builder
	for _, g := range goldenKeys {
		fmt.Fprintf(&b, "%d %s\n", g.key.Int64(), g.key.MySQLName())
	}
	return b.String()
}

// Nothing of a process (a hash seed, a map's order) may reach a key.
func TestKeysAreTheSameInAnotherProcess(t *testing.T) {
	if os.Getenv("SQLLOCK_TEST_SPELL") != "" {
		fmt.Print("<<" + spellings() + ">>")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "SQLLOCK_TEST_SPELL=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "<<"+spellings()+">>") {
		t.Errorf("another process spells\n%s\nthis one\n%s", out, spellings())
	}
}

func TestKeysDoNotCollide(t *testing.T) {
	const n = 200_000
	ids, names := make(map[int64]string, n), make(map[string]string, n)
	for i := range n {
		s := fmt.Sprintf("job-%d", i)
		if i%2 == 1 {
			s = fmt.Sprintf("Job %d", i)
		}
		k := sqllock.Name(s)
		if other, ok := ids[k.Int64()]; ok {
			t.Fatalf("%q and %q are both %d", s, other, k.Int64())
		}
		if other, ok := names[strings.ToLower(k.MySQLName())]; ok {
			t.Fatalf("%q and %q are both %q", s, other, k.MySQLName())
		}
		ids[k.Int64()], names[strings.ToLower(k.MySQLName())] = s, s
	}
}

// MySQL folds case and accents: no key may share a name with another constructor's, and every name is short and plain.
func TestMySQLNamesAreApartAndSafe(t *testing.T) {
	seen := map[string]sqllock.Key{}
	for _, k := range []sqllock.Key{
		sqllock.Name("a"), sqllock.Name("A"), sqllock.Name("á"), sqllock.Name("42"), sqllock.Name("#42"), sqllock.ID(42), sqllock.Name("1,2"),
		sqllock.Pair(1, 2), sqllock.Namespace("a").Name("b"), sqllock.Name("a/b"), sqllock.Namespace("a/").Name("b"), sqllock.Name("a' OR 1=1"),
		sqllock.Name("a\x00b"), sqllock.Name("a\xff"), sqllock.Name(strings.Repeat("x", 1<<20)), sqllock.Name("\u202eabc"), sqllock.Name(`"\`),
	} {
		name := k.MySQLName()
		if other, ok := seen[strings.ToLower(name)]; ok {
			t.Errorf("%q and %q are both %q", k, other, name)
		}
		seen[strings.ToLower(name)] = k
		if len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_.:/-#,~") != "" {
			t.Errorf("%q becomes %q", k, name)
		}
	}
}

// Each encoder has the vector of the tool that it is to meet.
func TestKeysOfOtherTools(t *testing.T) {
	if got := sqllock.MigrateKey("database_name").Int64(); got != 1764327054 { // golang-migrate's own test
		t.Errorf("MigrateKey: %d", got)
	}
	if got := sqllock.GooseKey().Int64(); got != 4097083626 { // goose's DefaultLockID
		t.Errorf("GooseKey: %d", got)
	}
	if got := sqllock.RailsKey("app_production").Int64(); got != 4615154450383096620 { // 2053462845 * crc32, by Ruby's Zlib
		t.Errorf("RailsKey: %d", got)
	}
}

func ExampleName() {
	k := sqllock.Name("daily-settlement")
	fmt.Println(k.Int64(), k.MySQLName())
	// Output: -2533923874772390729 daily-settlement
}
