package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sqllock/sqllock"
)

// hostileNames are what a name can be at its worst, on a server whose names others use too: "sec" is replaced by what is t's
// own. Several differ only in what a server or a terminal may fold.
func hostileNames(own string) (names []string) {
	long := "sec" + strings.Repeat("x", 1<<20)
	for _, n := range []string{
		"", "sec a", "sec A", "sec a ", " sec a", "sec\ta", "sec\na", "sec á", "sec a\u0301", "sec ß", "sec ss", "sec ı", "sec i", "sec I",
		"sec'; SELECT pg_advisory_unlock_all(); --", `sec\'; DO RELEASE_ALL_LOCKS(); -- `, `sec"`, "sec`", `sec\`, `sec\\`, "sec'", "sec''",
		"sec/* ", "sec */", "sec $1 ? :x %s %n {table}", "$$sec$$",
		"sec\x00", "sec\x00a", "sec\x00b", "sec\xff", "sec\xfe", "sec\xed\xa0\x80", "sec\xc0\x80", "sec\ufffd",
		"sec \u202egnol\u202c", "sec \u2066x\u2069", "sec \u200b", "sec \ufeff", "sec سر", "sec 😀", "sec 😁",
		"sec \x1b[2J\x1b]0;x\a", "sec \u009b2J", "sec\r\nsqllock: forged", "sec \x7f",
		long + "1", long + "2",
	} {
		names = append(names, strings.ReplaceAll(n, "sec", own))
	}
	return names
}

// legibleText fails t unless a person can read the text as a whole: a few printable lines.
func legibleText(t testing.TB, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("the text has %q: %.300q", r, text)
			return
		}
	}
	if len(text) > 2000 || !utf8.ValidString(text) {
		t.Errorf("the text has %d bytes, and is UTF-8: %v", len(text), utf8.ValidString(text))
	}
}

// Every name locks, no two are one, and what is said of them fits in a log.
func TestHostileNames(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		ctx, l, other := t.Context(), p.locker(t), p.locker(t)
		keys := hostileKeys(t, p)
		locks := make([]*sqllock.Lock, len(keys))
		for i, k := range keys {
			lock, err := l.TryAcquire(ctx, k)
			if err != nil {
				t.Fatalf("key %d: %.200v", i, err)
			}
			locks[i] = lock
		}
		if held := p.server.Held(t); len(held) != len(keys) {
			t.Errorf("%d locks are held under %d keys", len(held), len(keys))
		}
		for i, k := range keys {
			ran, err := sqllock.Run(ctx, other, k, func(context.Context) error { return nil })
			if ran || err != nil {
				t.Errorf("key %d ran twice: %.200v", i, err)
			}
			_, err = other.TryAcquire(ctx, k)
			if !errors.Is(err, sqllock.ErrHeld) {
				t.Errorf("key %d is not held: %.200v", i, err)
			}
			legibleText(t, fmt.Sprint(err))
			legibleText(t, k.String())
		}
		mustRelease(t, locks...)
	})
}

// hostileKeys are the names as keys, and as namespaces. The empty name is everybody's on MySQL.
func hostileKeys(t testing.TB, p *lockPool) (keys []sqllock.Key) {
	own := "sec" + value(t, p.DB, p.stack.text(t, "SELECT current_database()", "SELECT DATABASE()"))
	for _, n := range hostileNames(own) {
		keys = append(keys, sqllock.Namespace(own+"/").Name(n), sqllock.Namespace(own+n).Name("x"))
		if n != "" {
			keys = append(keys, sqllock.Name(n))
		}
	}
	return keys
}

// Transaction locks go by the same keys.
func TestHostileNamesOfTransactionLocks(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		for _, k := range hostileKeys(t, p) {
			ran, err := sqllock.RunExclusive(t.Context(), p.DB, k, func(*sql.Tx) error {
				ran, err := sqllock.RunExclusive(t.Context(), p.DB, k, func(*sql.Tx) error { return nil })
				if ran || err != nil {
					t.Errorf("%.200s ran twice: %v", k, err)
				}
				return nil
			})
			if !ran || err != nil {
				t.Errorf("%.200s: %v, %v", k, ran, err)
			}
		}
	}, onPgx, onPQ)
}

// A database's name only keeps keys apart.
func TestHostileDatabases(t *testing.T) {
	onLockers(t, func(t *testing.T, p *lockPool) {
		var locks []*sqllock.Lock
		for _, n := range hostileNames("sec") {
			l := p.locker(t, sqllock.WithDatabase(n+"!"), sqllock.WithDedicatedConn())
			locks = append(locks, mustTry(t, l, testKey(t)))
		}
		mustRelease(t, locks...)
	}, onMySQL, onMariaDB)
}

// What is no function's name is refused: it would be no more than a text to search for.
func TestHostileLockFunctions(t *testing.T) {
	for _, n := range append(hostileNames("sec"), "a b", "a()", `"a"`) {
		c := sqllock.OpenDB(onPgx.connector(t, onPgx.server(t), ""), sqllock.WithLockFunctions("app."+n))
		err := c.Ping()
		c.Close()
		if ascii := strings.ContainsFunc(n, func(r rune) bool { return r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) }); ascii && err == nil {
			t.Errorf("%.100q is taken for a function's name", n)
		}
		legibleText(t, fmt.Sprint(err))
	}
}

// Names that programs lock by themselves come back in reports: no name can write a line of its own there.
func TestHostileNamesInReports(t *testing.T) {
	onEach(t, func(t *testing.T, k stack) {
		r := newRig(t, k, "")
		for _, n := range hostileNames("sec") {
			c := r.pin()
			err := readAll(t.Context(), c, "SELECT GET_LOCK(?, 0)", n)
			r.giveBack(c)
			if err != nil { // the server refuses some
				legibleText(t, err.Error()[:min(len(err.Error()), 200)])
			}
		}
		r.outside.awaitFree(t, time.Second)
		for _, one := range r.reports.take() {
			legibleText(t, one.String())
			for _, line := range strings.Split(one.String(), "\n")[1:] {
				if !strings.HasPrefix(line, "  ") {
					t.Errorf("a name wrote the line %q", line)
				}
			}
		}
	}, onMySQL, onMariaDB)
}
