package sqllock

import "strings"

// The prefilter stands in front of every statement, so it must cost next to nothing. A statement whose first word is
// an ordinary one concerns the guard only if it calls a lock function, and every lock function's name contains
// _advisory_ on PostgreSQL and one of t_lock, e_lock and l_lock on MySQL. To find these it looks at every ninth
// (fifth) place of the text only: a word of ten (six) letters has nine (five) pairs of neighbours, and one of those
// must be seen. A table knows which pair of the word each two bytes are, if any; only then are the word's other
// letters looked at. That is done without a branch for each, so that a text full of such pairs stays cheap.

// ordinary reports whether text certainly does nothing that concerns the guard, as long as the session is not marked.
// false means nothing: recognise decides.
func ordinary(d Dialect, text string) bool {
	i := skipComments(d, text)
	n := 0
	var verb [10]byte
	for ; n < len(verb) && i+n < len(text) && isLetter(text[i+n]); n++ {
		verb[n] = lower(text[i+n])
	}
	rest := text[i+n:]
	switch {
	case rest == "" || isLetter(rest[0]) || isDigit(rest[0]) || rest[0] == '$':
		return false
	case d == DialectMySQL:
		return ordinaryMySQL(string(verb[:n])) && !hasSecond(d, rest) && !mentionsMySQL(rest)
	}
	return ordinaryPostgres(string(verb[:n])) && (endsWord(rest) || string(verb[:n]) == "select") && hasMore(rest) &&
		!hasSecond(d, rest) && !strings.Contains(rest, `&"`) && !mentionsPostgres(rest)
}

// ordinaryPostgres reports whether the statements that start with verb matter only through what they call.
func ordinaryPostgres(verb string) bool {
	switch verb {
	case "select", "insert", "update", "delete", "with", "values", "merge", "table", "create", "alter", "drop", "truncate",
		"show", "set", "reset", "explain", "analyze", "analyse", "vacuum", "comment", "grant", "revoke", "copy", "reindex",
		"cluster", "refresh", "notify", "listen", "unlisten", "lock", "savepoint", "release":
		return true
	}
	return false
}

// ordinaryMySQL is the same for MySQL. SET is not here, because of SET STATEMENT ... FOR.
func ordinaryMySQL(verb string) bool {
	switch verb {
	case "select", "insert", "update", "delete", "replace", "with", "values", "table", "create", "alter", "drop", "truncate",
		"rename", "show", "explain", "desc", "describe", "analyze", "optimize", "check", "checksum", "repair", "grant",
		"revoke", "load", "use", "do", "kill", "savepoint", "release":
		return true
	}
	return false
}

// skipComments returns where the first word starts, behind blanks and comments that are comments beyond doubt.
func skipComments(d Dialect, text string) int {
	for i := 0; i < len(text); {
		rest := text[i:]
		switch {
		case isBlank(rest[0]):
			i++
		case strings.HasPrefix(rest, "-- "):
			end := strings.IndexByte(rest, '\n')
			if end < 0 || d == DialectPostgres && strings.IndexByte(rest[:end], '\r') >= 0 {
				return i
			}
			i += end
		case strings.HasPrefix(rest, "/*") && !strings.HasPrefix(rest, "/*!") && !strings.HasPrefix(rest, "/*M!"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 || strings.Contains(rest[2:2+end+1], "/*") { // a nested one may start with this very star
				return i
			}
			i += end + 4
		default:
			return i
		}
	}
	return len(text)
}

// hasSecond reports whether something may stand behind a semicolon that matters by its first word.
func hasSecond(d Dialect, text string) bool {
	for i := strings.IndexByte(text, ';'); i >= 0; i = strings.IndexByte(text, ';') {
		text = text[i+1:]
		for len(text) > 0 && isBlank(text[0]) {
			text = text[1:]
		}
		if len(text) > 0 && (text[0] == '/' || text[0] == '-' || text[0] == '#' || text[0] == noBreakSpace) {
			return true // there may be a comment or a blank in front of it
		}
		n := 0
		for n < len(text) && isLetter(text[n]) && n <= longestSecond {
			n++
		}
		if second(d, text[:n]) {
			return true
		}
	}
	return false
}

// longestSecond is the length of ROLLBACK.
const longestSecond = 8

// second reports whether a statement behind another matters by its first word.
func second(d Dialect, word string) bool {
	var buf [longestSecond]byte
	if len(word) > len(buf) {
		return false
	}
	n := copy(buf[:], word)
	switch string(foldAll(buf[:n])) {
	case "begin", "start", "commit", "rollback", "prepare", "declare", "do":
		return true
	case "end", "abort":
		return d == DialectPostgres
	case "xa", "lock", "unlock", "flush", "backup", "handler", "execute", "call", "set", "if", "case", "loop", "while", "repeat", "for":
		return d == DialectMySQL
	}
	return false
}

// hasMore reports whether something follows the verb: a text of one word may be a prepared statement's name.
func hasMore(rest string) bool {
	i := skipComments(DialectPostgres, rest)
	return i < len(rest) && rest[i] != ';' && rest[i] != '-' && rest[i] != '/'
}

// pairs says of two bytes, in any case, which pair of the words they are: 1 for the first; 0 for none.
func pairs(words ...string) *[1 << 16]uint8 {
	var t [1 << 16]uint8
	for _, w := range words {
		for i := 0; i+1 < len(w); i++ {
			for _, a := range []byte{w[i], upper(w[i])} {
				for _, b := range []byte{w[i+1], upper(w[i+1])} {
					t[int(a)|int(b)<<8] = uint8(i + 1)
				}
			}
		}
	}
	return &t
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

const postgresWord = "_advisory_"

var postgresPairs = pairs(postgresWord)

// mentionsPostgres reports whether text contains _advisory_ in any case.
func mentionsPostgres(text string) bool {
	i := strings.IndexByte(text, '_')
	if i < 0 {
		return false
	}
	t := postgresPairs
	for ; i+64 <= len(text); i += 36 {
		w := text[i : i+64]
		a := t[int(w[8])|int(w[9])<<8]
		b := t[int(w[17])|int(w[18])<<8]
		c := t[int(w[26])|int(w[27])<<8]
		d := t[int(w[35])|int(w[36])<<8]
		if a|b|c|d == 0 {
			continue
		}
		// where the word would start and where it would end there is a _
		if (w[(9-a)&63]^'_')|(w[(18-a)&63]^'_') == 0 || (w[(18-b)&63]^'_')|(w[(27-b)&63]^'_') == 0 ||
			(w[(27-c)&63]^'_')|(w[(36-c)&63]^'_') == 0 || (w[(36-d)&63]^'_')|(w[(45-d)&63]^'_') == 0 {
			if containsFold(w, postgresWord) {
				return true
			}
		}
	}
	for i += 8; i+1 < len(text); i += 9 {
		k := int(t[int(text[i])|int(text[i+1])<<8])
		from := i + 1 - k
		if k > 0 && from+len(postgresWord) <= len(text) && equalFold(text[from:from+len(postgresWord)], postgresWord) {
			return true
		}
	}
	return false
}

var mysqlPairs = pairs("t_lock", "e_lock", "l_lock")

// mentionsMySQL reports whether text contains t_lock, e_lock or l_lock in any case.
func mentionsMySQL(text string) bool {
	i := strings.IndexByte(text, '_')
	if i < 0 {
		return false
	}
	t := mysqlPairs
	for i = max(i-1, 0); i+32 <= len(text); i += 20 {
		w := text[i : i+32]
		a := t[int(w[4])|int(w[5])<<8]
		b := t[int(w[9])|int(w[10])<<8]
		c := t[int(w[14])|int(w[15])<<8]
		d := t[int(w[19])|int(w[20])<<8]
		if a|b|c|d == 0 {
			continue
		}
		// where the word would start there is its first pair, and its last letter where it would end
		wa, wb, wc, wd := w[(5-a)&7:], w[5:][(5-b)&7:], w[10:][(5-c)&7:], w[15:][(5-d)&7:]
		if (t[int(wa[0])|int(wa[1])<<8]^1)|((wa[5]|0x20)^'k') == 0 || (t[int(wb[0])|int(wb[1])<<8]^1)|((wb[5]|0x20)^'k') == 0 ||
			(t[int(wc[0])|int(wc[1])<<8]^1)|((wc[5]|0x20)^'k') == 0 || (t[int(wd[0])|int(wd[1])<<8]^1)|((wd[5]|0x20)^'k') == 0 {
			if hasLockWord(w) {
				return true
			}
		}
	}
	for i += 4; i+1 < len(text); i += 5 {
		k := int(t[int(text[i])|int(text[i+1])<<8])
		if from := i + 1 - k; k > 0 && from+6 <= len(text) && hasLockWord(text[from:from+6]) {
			return true
		}
	}
	return false
}

func hasLockWord(s string) bool {
	return containsFold(s, "t_lock") || containsFold(s, "e_lock") || containsFold(s, "l_lock")
}
