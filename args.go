package sqllock

import (
	"database/sql/driver"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// isPlainValue says whether v is one of the values that every driver just sends. pgx also takes arguments
// that change what is sent: they are looked at closely.
func isPlainValue(v driver.Value) bool {
	switch v.(type) {
	case nil, int64, string, int, bool, float64, []byte, time.Time, int32:
		return true
	}
	return false
}

const pgxPath = "github.com/jackc/pgx/"

// pgxType returns the name of v's type if it is one of pgx's.
func pgxType(v any) string {
	if t := reflect.TypeOf(v); strings.HasPrefix(t.PkgPath(), pgxPath) {
		return t.Name()
	}
	return ""
}

// leadingOptions counts the options of pgx that precede the arguments proper.
func leadingOptions(args []driver.NamedValue) int {
	for i, a := range args {
		if isPlainValue(a.Value) {
			return i
		}
		switch pgxType(a.Value) {
		case "QueryExecMode", "QueryResultFormats", "QueryResultFormatsByOID":
		default:
			return i
		}
	}
	return len(args)
}

// rewrites says whether an argument replaces the text that pgx sends by one that is not seen here.
func rewrites(v any) bool {
	switch pgxType(v) {
	case "NamedArgs", "StrictNamedArgs": // these only replace @names by arguments
		return false
	}
	_, ok := reflect.TypeOf(v).MethodByName("RewriteQuery")
	return ok
}

// recognise says what a call may do, and whether that has to be observed.
func (c *conn) recognise(query string) (statement, bool) {
	s := recognise(c.pool.cfg.dialect, query, c.pool.cfg.functions)
	return s, c.table.concerns(s)
}

// keyOf returns the key of a plain call as the hold table spells it, or false where an argument cannot be read.
func keyOf(d Dialect, s statement, args []driver.NamedValue) (lockKey, bool) {
	skip := 0
	if d == DialectPostgres {
		skip = leadingOptions(args)
	}
	var parts [2]string
	for i, op := range s.keys[:s.nkeys] {
		var ok bool
		if op.param > 0 {
			parts[i], ok = argText(d, op.param+skip, args)
		} else {
			parts[i], ok = keyText(d, op.text)
		}
		if !ok {
			return lockKey{}, false
		}
	}
	k := lockKey{kind: kindAdvisory, name: parts[0], shared: s.shared}
	if d == DialectMySQL {
		k.kind = kindNamed
	}
	if s.nkeys == 2 {
		k.name += "," + parts[1]
	}
	return k, true
}

// argText returns the argument of an ordinal as key text; NULL has none.
func argText(d Dialect, ordinal int, args []driver.NamedValue) (string, bool) {
	if ordinal > len(args) || args[ordinal-1].Name != "" {
		return "", false
	}
	switch v := args[ordinal-1].Value.(type) {
	case string:
		return keyText(d, v)
	case []byte:
		return keyText(d, string(v))
	default:
		return integerText(v)
	}
}

// keyText reads a key from a literal or a string argument: a bigint in PostgreSQL, the name itself in MySQL.
func keyText(d Dialect, s string) (string, bool) {
	if d == DialectMySQL {
		return s, true
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return strconv.FormatInt(n, 10), err == nil
}

// integerText reads a key from any kind of integer; what a Valuer sends is not known here.
func integerText(v any) (string, bool) {
	r := reflect.ValueOf(v)
	_, valuer := v.(driver.Valuer)
	switch {
	case valuer || !r.IsValid():
		return "", false
	case r.CanInt():
		return strconv.FormatInt(r.Int(), 10), true
	case r.CanUint():
		return strconv.FormatUint(r.Uint(), 10), true
	}
	return "", false
}
