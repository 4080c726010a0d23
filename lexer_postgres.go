package sqllock

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// nextPostgres follows the manual's chapter 4.1 and the server's scan.l.
func (l *lexer) nextPostgres(t *token) {
	l.skipPostgres()
	pos, c := l.pos, l.peek(0)
	switch {
	case pos == len(l.text):
		l.cut(t, tokenEnd, pos, 0, 0)
	case c == '\'':
		l.pos++
		l.quoted(t, tokenString, '\'', l.reading.flipBackslash, pos, 1)
	case c == '"':
		l.pos++
		l.quoted(t, tokenName, '"', false, pos, 1)
	case c == '$':
		l.dollar(t)
	case isLetter(c):
		l.wordPostgres(t)
	case isDigit(c) || c == '.' && isDigit(l.peek(1)):
		l.numberPostgres(t)
	default:
		l.pos++
		l.broken = l.broken || c == '\\'
		l.cut(t, tokenSymbol, pos, 0, 0)
	}
}

// skipPostgres skips blanks and comments. A line ends with \n or \r; block comments nest.
func (l *lexer) skipPostgres() {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; {
		case isBlank(c):
			l.pos++
		case c == '-' && l.peek(1) == '-':
			l.skipLine(true)
		case c == '/' && l.peek(1) == '*':
			l.skipNested()
		default:
			return
		}
	}
}

func (l *lexer) skipNested() {
	depth := 0
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; {
		case c == '/' && l.peek(1) == '*':
			depth++
			l.pos += 2
		case c == '*' && l.peek(1) == '/':
			depth--
			l.pos += 2
			if depth == 0 {
				return
			}
		default:
			l.pos++
		}
	}
	l.broken = true
}

// wordPostgres reads an identifier, or the literal or the name that its first letters announce: E”, U&"", ...
func (l *lexer) wordPostgres(t *token) {
	pos := l.pos
	switch c := lower(l.peek(0)); {
	case c == 'e' && l.peek(1) == '\'':
		l.pos += 2
		l.escapeString(t, pos)
	case c == 'u' && l.peek(1) == '&' && l.peek(2) == '\'':
		l.pos += 3
		l.quoted(t, tokenString, '\'', false, pos, 3)
		t.quote = 'U'
	case c == 'u' && l.peek(1) == '&' && l.peek(2) == '"':
		l.pos += 3
		l.unicodeName(t, pos)
	case (c == 'b' || c == 'x') && l.peek(1) == '\'':
		l.pos += 2
		l.quoted(t, tokenString, '\'', false, pos, 2)
	case c == 'n' && l.peek(1) == '\'':
		l.pos += 2
		l.quoted(t, tokenString, '\'', l.reading.flipBackslash, pos, 2)
	default:
		for l.pos < len(l.text) && (isLetter(l.text[l.pos]) || isDigit(l.text[l.pos]) || l.text[l.pos] == '$') {
			l.pos++
		}
		l.cut(t, tokenWord, pos, 0, 0)
	}
}

// escapeString reads an E” string with its continuations on later lines: backslashes escape in those too.
func (l *lexer) escapeString(t *token, pos int) {
	l.quoted(t, tokenString, '\'', true, pos, 2)
	for l.continued() {
		l.quoted(t, tokenString, '\'', true, pos, 2)
	}
}

// continued moves behind the opening quote of a string's continuation, if blanks with a line end (and line comments)
// and then a quote follow; else nowhere.
func (l *lexer) continued() bool {
	pos, line := l.pos, false
	for ; l.pos < len(l.text); l.pos++ {
		switch c := l.text[l.pos]; {
		case c == '\n' || c == '\r':
			line = true
		case isBlank(c):
		case c == '-' && l.peek(1) == '-':
			l.skipLine(true)
			l.pos-- // the loop steps onto the line end
		case c == '\'' && line:
			l.pos++
			return true
		default:
			l.pos = pos
			return false
		}
	}
	l.pos = pos
	return false
}

// unicodeName reads a U&"" name, with the UESCAPE that may follow it, and resolves its escapes.
func (l *lexer) unicodeName(t *token, pos int) {
	l.quoted(t, tokenName, '"', false, pos, 3)
	escape, after := byte('\\'), l.pos
	l.skipPostgres()
	if end := l.pos + len("UESCAPE"); end <= len(l.text) && equalFold(l.text[l.pos:end], "UESCAPE") {
		l.pos = end
		l.skipPostgres()
		if l.peek(0) == '\'' && l.peek(2) == '\'' {
			escape, after = l.peek(1), l.pos+3
		}
	}
	l.pos, t.end = after, after
	if strings.IndexByte(t.text, escape) >= 0 {
		t.text = unescapeName(t.text, escape)
	}
}

// unescapeName resolves a backslash with four hexadecimal digits, or with + and six. What the server would refuse stays as it is.
func unescapeName(s string, escape byte) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		digits, n := "", 0
		if s[i] == escape && i+5 <= len(s) {
			digits, n = s[i+1:i+5], 4
		}
		if n != 0 && s[i+1] == '+' && i+8 <= len(s) {
			digits, n = s[i+2:i+8], 7
		}
		r, err := strconv.ParseUint(digits, 16, 32)
		switch {
		case err == nil && utf8.ValidRune(rune(r)):
			b.WriteRune(rune(r))
			i += n
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// dollar reads a parameter or a dollar quote. A tag that has no second dollar sign is no quote.
func (l *lexer) dollar(t *token) {
	pos := l.pos
	l.pos++
	switch {
	case isDigit(l.peek(0)):
		for isDigit(l.peek(0)) {
			l.pos++
		}
		l.cut(t, tokenParam, pos, 1, 0)
	case !l.skipTag():
		l.pos = pos + 1
		l.cut(t, tokenSymbol, pos, 0, 0)
	default:
		l.dollarQuoted(t, pos)
	}
}

// skipTag skips the rest of a dollar quote's tag and reports whether it is one.
func (l *lexer) skipTag() bool {
	for start := l.pos; isLetter(l.peek(0)) || l.pos > start && isDigit(l.peek(0)); {
		l.pos++
	}
	l.pos++
	return l.pos <= len(l.text) && l.text[l.pos-1] == '$'
}

// dollarQuoted reads up to and with the closing tag; the opening one started at pos.
func (l *lexer) dollarQuoted(t *token, pos int) {
	tag := l.text[pos:l.pos]
	tail := len(tag)
	if length := strings.Index(l.text[l.pos:], tag); length >= 0 {
		l.pos += length + len(tag)
	} else {
		l.pos, l.broken, tail = len(l.text), true, 0
	}
	l.cut(t, tokenString, pos, len(tag), tail)
	t.quote = '$'
}

// numberPostgres reads a number in the spelling of any version: 1_000 and 0x1F are PostgreSQL 16's.
func (l *lexer) numberPostgres(t *token) {
	pos := l.pos
	for {
		c := l.peek(0)
		switch {
		case isDigit(c) || c == '.' && l.peek(1) != '.' || c == '_' && isDigit(l.peek(1)):
			l.pos++
		case l.pos == pos+1 && l.text[pos] == '0' && isRadix(c) && isHex(l.peek(1)):
			l.pos += 2
			for isHex(l.peek(0)) || l.peek(0) == '_' {
				l.pos++
			}
		case lower(c) == 'e' && isDigit(l.peek(1)):
			l.pos += 2
		case lower(c) == 'e' && (l.peek(1) == '-' || l.peek(1) == '+') && isDigit(l.peek(2)):
			l.pos += 3
		default:
			l.cut(t, tokenNumber, pos, 0, 0)
			return
		}
	}
}

func isRadix(c byte) bool { c = lower(c); return c == 'x' || c == 'o' || c == 'b' }

func isHex(c byte) bool { c = lower(c); return isDigit(c) || 'a' <= c && c <= 'f' }
