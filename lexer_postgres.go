package sqllock

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// nextPostgres follows the manual's chapter 4.1 and the server's scan.l.
func (l *lexer) nextPostgres() token {
	l.skipPostgres()
	pos, c := l.pos, l.peek(0)
	switch {
	case pos == len(l.text):
		return token{kind: tokenEnd, pos: pos, end: pos}
	case c == '\'':
		l.pos++
		return l.quoted(tokenString, '\'', l.reading.flipBackslash, pos, 1)
	case c == '"':
		l.pos++
		return l.quoted(tokenName, '"', false, pos, 1)
	case c == '$':
		return l.dollar()
	case isLetter(c):
		return l.wordPostgres()
	case isDigit(c) || c == '.' && isDigit(l.peek(1)):
		return l.numberPostgres()
	}
	return l.symbol()
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
	l.open = true
}

// wordPostgres reads an identifier, or the literal or the name that its first letters announce: E”, U&"", ...
func (l *lexer) wordPostgres() token {
	pos := l.pos
	switch c := lower(l.peek(0)); {
	case c == 'e' && l.peek(1) == '\'':
		l.pos += 2
		return l.escapeString(pos)
	case c == 'u' && l.peek(1) == '&' && l.peek(2) == '\'':
		l.pos += 3
		t := l.quoted(tokenString, '\'', false, pos, 3)
		t.quote = 'U'
		return t
	case c == 'u' && l.peek(1) == '&' && l.peek(2) == '"':
		l.pos += 3
		return l.unicodeName(pos)
	case (c == 'b' || c == 'x') && l.peek(1) == '\'':
		l.pos += 2
		return l.quoted(tokenString, '\'', false, pos, 2)
	case c == 'n' && l.peek(1) == '\'':
		l.pos += 2
		return l.quoted(tokenString, '\'', l.reading.flipBackslash, pos, 2)
	}
	for l.pos < len(l.text) && (isLetter(l.text[l.pos]) || isDigit(l.text[l.pos]) || l.text[l.pos] == '$') {
		l.pos++
	}
	return l.cut(tokenWord, pos, 0, 0)
}

// escapeString reads an E” string with its continuations on later lines: backslashes escape in those too.
func (l *lexer) escapeString(pos int) token {
	t := l.quoted(tokenString, '\'', true, pos, 2)
	for l.continued() {
		l.quoted(tokenString, '\'', true, pos, 2)
		t.text, t.escapes, t.end = l.text[pos+2:l.pos], true, l.pos
	}
	return t
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
func (l *lexer) unicodeName(pos int) token {
	t := l.quoted(tokenName, '"', false, pos, 3)
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
	return t
}

// unescapeName resolves \XXXX and \+XXXXXX. What the server would refuse stays as it is.
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
func (l *lexer) dollar() token {
	pos := l.pos
	l.pos++
	if isDigit(l.peek(0)) {
		for isDigit(l.peek(0)) {
			l.pos++
		}
		return l.cut(tokenParam, pos, 1, 0)
	}
	for isLetter(l.peek(0)) || l.pos > pos+1 && isDigit(l.peek(0)) {
		l.pos++
	}
	if l.peek(0) != '$' {
		l.pos = pos
		return l.symbol()
	}
	l.pos++
	tag := l.text[pos:l.pos]
	length := strings.Index(l.text[l.pos:], tag)
	if length < 0 {
		l.pos, l.open = len(l.text), true
		return token{kind: tokenString, quote: '$', text: l.text[pos+len(tag):], pos: pos, end: l.pos}
	}
	l.pos += length + len(tag)
	t := l.cut(tokenString, pos, len(tag), len(tag))
	t.quote = '$'
	return t
}

// numberPostgres reads a number in the spelling of any version: 1_000 and 0x1F are PostgreSQL 16's.
func (l *lexer) numberPostgres() token {
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
			return l.cut(tokenNumber, pos, 0, 0)
		}
	}
}

func isRadix(c byte) bool { c = lower(c); return c == 'x' || c == 'o' || c == 'b' }

func isHex(c byte) bool { c = lower(c); return isDigit(c) || 'a' <= c && c <= 'f' }
