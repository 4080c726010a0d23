package sqllock

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// A Key is what is locked. It is a comparable value, safe for concurrent use; make one with [Name], [ID], [Pair]
// or [Namespace.Name]. The zero Key is Name("").
//
// How a key is spelled on a server never changes between versions, so that every version of a program, and
// programs in other languages, meet on it:
//
//   - PostgreSQL, names: the first 8 bytes of SHA-256 of the name, as a big-endian bigint. [ID] is the bigint itself,
//     [Pair] is PostgreSQL's separate space of two ints.
//   - MySQL and MariaDB, names: the name itself if it is plain: it starts with a-z, has only a-z 0-9 _ . : / - and
//     at most 64 characters. Every other key is spelled with a character that plain names lack (~ or #), so that no
//     two keys share a name although MySQL folds case and accents.
type Key struct {
	form  keyForm
	space Namespace
	name  string
	id    int64
}

type keyForm uint8

const (
	formName keyForm = iota
	formID
	formPair
)

// Name makes a key of any string, of any length, the empty one included.
func Name(s string) Key { return Key{name: s} }

// ID makes a key of a number: in PostgreSQL, the bigint itself.
func ID(id int64) Key { return Key{form: formID, id: id} }

// Pair makes a key in PostgreSQL's space of two ints, which is separate from that of the bigints.
func Pair(a, b int32) Key { return Key{form: formPair, id: int64(a)<<32 | int64(uint32(b))} }

// A Namespace keeps the names of one application or team apart from everybody else's on the same server.
// It is part of the key.
type Namespace string

// Name makes a key of any string within the namespace.
func (n Namespace) Name(s string) Key { return Key{space: n, name: s} }

// Int64 returns the bigint that locks the key in PostgreSQL, for psql and other languages. For a [Pair] it returns
// the two halves as pg_locks shows them, classid above objid.
func (k Key) Int64() int64 {
	if k.form != formName {
		return k.id
	}
	sum := k.sum()
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// sum hashes a name. A namespace is folded in through its own hash, so that
// Namespace("a").Name("bc") and Namespace("ab").Name("c") are two keys.
func (k Key) sum() [sha256.Size]byte {
	if k.space == "" {
		return sha256.Sum256([]byte(k.name))
	}
	space := sha256.Sum256([]byte(k.space))
	return sha256.Sum256(append(space[:], k.name...))
}

const (
	maxMySQLName = 64 // characters, on MySQL; MariaDB allows 192 bytes
	hashDigits   = 32 // 128 bits of the hash
	maxReadable  = maxMySQLName - hashDigits - 1
)

// MySQLName returns the name that locks the key on MySQL and MariaDB.
func (k Key) MySQLName() string {
	switch {
	case k.form == formID:
		return "#" + strconv.FormatInt(k.id, 10)
	case k.form == formPair:
		a, b := k.pair()
		return fmt.Sprintf("#%d,%d", a, b)
	case k.space == "" && isPlainName(k.name):
		return k.name
	}
	sum := k.sum()
	return readable(k.spelled()) + "~" + hex.EncodeToString(sum[:hashDigits/2])
}

func (k Key) pair() (a, b int32) { return int32(k.id >> 32), int32(k.id) }

// String returns the key as a person would write it. It is for messages: two keys can read the same, a long one is cut off,
// and what cannot be printed is escaped.
func (k Key) String() string { return legible(k.spelled()) }

// spelled is the key as it was asked for.
func (k Key) spelled() string {
	switch {
	case k.form == formID:
		return strconv.FormatInt(k.id, 10)
	case k.form == formPair:
		a, b := k.pair()
		return fmt.Sprintf("%d,%d", a, b)
	case k.space != "":
		return string(k.space) + "/" + k.name
	}
	return k.name
}

func isPlainName(s string) bool {
	if s == "" || len(s) > maxMySQLName || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if !isPlainByte(s[i]) {
			return false
		}
	}
	return true
}

func isPlainByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || strings.IndexByte("_.:/-", b) >= 0
}

// readable is the start of a name, for people who look at the server's lock table; the hash is what counts.
func readable(s string) string {
	b := make([]byte, 0, maxReadable)
	for i := 0; i < len(s) && len(b) < maxReadable; i++ {
		switch c := s[i] | 0x20; {
		case isPlainByte(s[i]):
			b = append(b, s[i])
		case c >= 'a' && c <= 'z':
			b = append(b, c)
		default:
			b = append(b, '_')
		}
	}
	return string(b)
}

// MigrateKey is the key under which golang-migrate locks a PostgreSQL database while it migrates.
// The parts are those that it joins before the database's name, such as schema and table.
func MigrateKey(database string, parts ...string) Key {
	const salt = 1486364155
	sum := crc32.ChecksumIEEE([]byte(strings.Join(append(append([]string{}, parts...), database), "\x00")))
	return ID(int64(sum * salt))
}

// GooseKey is the key under which goose locks a PostgreSQL database by default while it migrates.
func GooseKey() Key { return ID(4097083626) }

// RailsKey is the key under which Rails' migrator locks a PostgreSQL database.
func RailsKey(database string) Key {
	const salt = 2053462845
	return ID(salt * int64(crc32.ChecksumIEEE([]byte(database))))
}
