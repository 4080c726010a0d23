package sqllock

// A tokenKind says what a token is. Blanks and comments are no tokens.
type tokenKind uint8

const (
	tokenEnd    tokenKind = iota
	tokenWord             // an unquoted identifier or keyword
	tokenName             // a quoted identifier
	tokenString           // a string literal; on MySQL "x" too, which ANSI_QUOTES makes an identifier
	tokenNumber           // a number without its sign
	tokenParam            // $1 or ?
	tokenVar              // MySQL: @x, @@x
	tokenSymbol           // one other byte
)

// A token is a piece of a text. Nothing is copied: content is a slice of the text, except for the rare escaped name.
type token struct {
	kind    tokenKind
	quote   byte   // tokenString: ' or "; $ for a dollar quote, U for U&''
	escapes bool   // tokenString: the content is not what the string says (escapes, Unicode escapes, doubled quotes)
	text    string // without the quotes
	pos     int    // where it starts ...
	end     int    // ... and ends in the text, quotes included
}

// A reading is what session settings and the server's version make of a text: the text alone does not tell.
type reading struct {
	// flipBackslash: a backslash in a string means the opposite of the default. PostgreSQL: it escapes
	// (standard_conforming_strings is off); MySQL: it does not (NO_BACKSLASH_ESCAPES).
	flipBackslash bool
	ansiQuotes    bool // MySQL: "x" is an identifier, in which a backslash never escapes
	skipVersioned bool // MySQL: executable comments that are not for every server are comments
	charset       charset
}

// A charset is what the client's character set may be. It matters for texts that are not UTF-8 only.
type charset uint8

const (
	charsetUTF8   charset = iota
	charsetSingle         // latin1 and the like: MySQL takes the no-break space for a blank
	charsetDouble         // Chinese, Japanese and Korean ones: a byte above ASCII swallows the next, be it a quote's backslash
)

// A lexer cuts a text into tokens by the rules of its dialect, in linear time and whatever the bytes are.
type lexer struct {
	dialect   Dialect
	reading   reading
	text      string
	pos       int
	broken    bool // a syntax error: the text ended within quotes or a comment, or a backslash stands outside of quotes
	executing bool // MySQL: inside of an executable comment
	executed  bool // MySQL: met an executable comment
	versioned int  // MySQL: met so many executable comments that only some servers run
}

// next reads the next token into t; at the end of the text and ever after one of kind tokenEnd.
func (l *lexer) next(t *token) {
	if l.dialect == DialectMySQL {
		l.nextMySQL(t)
		return
	}
	l.nextPostgres(t)
}

// peek returns the byte n places ahead; 0 behind the end.
func (l *lexer) peek(n int) byte {
	if l.pos+n < len(l.text) {
		return l.text[l.pos+n]
	}
	return 0
}

// cut makes t what was read since pos; its content lies between the two offsets from its ends.
func (l *lexer) cut(t *token, kind tokenKind, pos, head, tail int) {
	from, to := pos+head, max(l.pos-tail, pos+head) // an unterminated quote of one byte has no content
	t.kind, t.quote, t.escapes = kind, 0, false
	t.text, t.pos, t.end = l.text[from:to], pos, l.pos
}

// skipLine skips the rest of a comment that ends with the line. The end of line itself is left.
func (l *lexer) skipLine(carriageReturn bool) {
	for l.pos < len(l.text) && l.text[l.pos] != '\n' && (!carriageReturn || l.text[l.pos] != '\r') {
		l.pos++
	}
}

// skipTo moves behind the next occurrence of the two bytes, or to the end.
func (l *lexer) skipTo(a, b byte) {
	for ; l.pos < len(l.text); l.pos++ {
		if l.text[l.pos] == a && l.peek(1) == b {
			l.pos += 2
			return
		}
	}
	l.broken = true
}

// quoted reads up to and with the closing quote; l.pos is behind the opening one. A doubled quote is content.
func (l *lexer) quoted(t *token, kind tokenKind, quote byte, backslash bool, pos, head int) {
	escapes, tail := false, 0
	for tail == 0 && l.pos < len(l.text) {
		c := l.text[l.pos]
		l.pos++
		switch {
		case c >= 0x80 && l.reading.charset == charsetDouble && l.pos < len(l.text):
			l.pos++
		case c == '\\' && backslash:
			escapes = true
			l.pos = min(l.pos+1, len(l.text))
		case c == quote && l.peek(0) == quote:
			escapes = true
			l.pos++
		case c == quote:
			tail = 1
		}
	}
	l.broken = l.broken || tail == 0
	l.cut(t, kind, pos, head, tail)
	t.quote, t.escapes = quote, escapes
}

// is reports whether t is the symbol c.
func (t *token) is(c byte) bool { return t.kind == tokenSymbol && t.text[0] == c }

// named reports whether t is a name, quoted or not.
func (t *token) named() bool { return t.kind == tokenWord || t.kind == tokenName }

// word reports whether t is the unquoted word w, which is in upper case.
func (t *token) word(w string) bool { return t.kind == tokenWord && equalFold(t.text, w) }

// equalFold compares as keywords are compared: letters of ASCII in any case. strings.EqualFold knows more letters.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i < len(a); i++ {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

// containsFold reports whether text contains part, which is in lower case and not empty, in any case.
func containsFold(text, part string) bool {
	for i := 0; i+len(part) <= len(text); i++ {
		if lower(text[i]) == part[0] && equalFold(text[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isLetter reports whether c can be in a name here.
func (l *lexer) isLetter(c byte) bool {
	return isLetter(c) && (c != noBreakSpace || l.reading.charset != charsetSingle)
}

// isLetter reports whether c can be in a name: both dialects take every byte above ASCII for a letter.
func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}

const noBreakSpace = 0xa0

// isBlank reports whether c is blank here.
func (l *lexer) isBlank(c byte) bool {
	return isBlank(c) || c == noBreakSpace && l.reading.charset == charsetSingle
}

// isBlank: \v is blank for MySQL and for PostgreSQL 16 and newer; on older ones it is a syntax error.
func isBlank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
