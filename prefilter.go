package sqllock

import "strings"

// The prefilter stands in front of every statement, so it must cost next to nothing. A statement whose first word is
// an ordinary one concerns the guard only if it calls a lock function, and nothing is called without a parenthesis or,
// on PostgreSQL, the point of attribute notation. To find the functions' names it looks at every eleventh (PostgreSQL)
// or fifth (MySQL) place of the text only: see grams.go.

// ordinary reports whether text certainly does nothing that concerns the guard, as long as the session is not marked.
// false means nothing: recognise decides.
func ordinary(d Dialect, text string) bool {
	rest, ok := afterVerb(d, text)
	if !ok || hasSecond(d, rest) {
		return false
	}
	if strings.IndexByte(rest, '(') < 0 && (d == DialectMySQL || strings.IndexByte(rest, '.') < 0) {
		return true
	}
	if d == DialectMySQL {
		return strings.IndexByte(rest, '_') < 0 || !mentionsMySQL(rest)
	}
	return !hasUnicodeName(rest) && (strings.IndexByte(rest, '_') < 0 || !mentionsPostgres(rest))
}

// afterVerb returns what follows the first word, if that is an ordinary one.
func afterVerb(d Dialect, text string) (rest string, ok bool) {
	if commonVerb(text) && isLetter(text[7]) {
		return text[6:], true
	}
	i := skipComments(d, text)
	n := 0
	var verb [10]byte
	for ; n < len(verb) && i+n < len(text) && isLetter(text[i+n]); n++ {
		verb[n] = lower(text[i+n])
	}
	rest = text[i+n:]
	if len(rest) == 0 || isLetter(rest[0]) || isDigit(rest[0]) || rest[0] == '$' {
		return "", false
	}
	if d == DialectMySQL {
		return rest, ordinaryMySQL(string(verb[:n]))
	}
	return rest, ordinaryPostgres(string(verb[:n])) && (endsWord(rest) || string(verb[:n]) == "select") && hasMore(rest)
}

// commonVerb reports whether text starts with one of the four most frequent words and a space: most texts need no
// closer look.
func commonVerb(text string) bool {
	if len(text) < 8 || text[6] != ' ' {
		return false
	}
	switch load8(text)&(1<<48-1) | fold8&(1<<48-1) {
	case verbSelect, verbInsert, verbUpdate, verbDelete:
		return true
	}
	return false
}

// The words as load8 reads them: the first letter is the lowest byte.
const (
	verbSelect = 's' | 'e'<<8 | 'l'<<16 | 'e'<<24 | 'c'<<32 | 't'<<40
	verbInsert = 'i' | 'n'<<8 | 's'<<16 | 'e'<<24 | 'r'<<32 | 't'<<40
	verbUpdate = 'u' | 'p'<<8 | 'd'<<16 | 'a'<<24 | 't'<<32 | 'e'<<40
	verbDelete = 'd' | 'e'<<8 | 'l'<<16 | 'e'<<24 | 't'<<32 | 'e'<<40
)

// hasUnicodeName reports whether there may be a U&"..." name.
func hasUnicodeName(text string) bool {
	for i := strings.IndexByte(text, '&'); i >= 0; i = strings.IndexByte(text, '&') {
		text = text[i+1:]
		if len(text) > 0 && text[0] == '"' {
			return true
		}
	}
	return false
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
