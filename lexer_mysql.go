package sqllock

import "strings"

// nextMySQL follows chapters 11.1.1 and 11.7 of MySQL's manual and both servers' sql_lex.cc.
func (l *lexer) nextMySQL(t *token) {
	l.skipMySQL()
	pos, c := l.pos, l.peek(0)
	switch {
	case pos == len(l.text):
		l.broken = l.broken || l.executing
		l.cut(t, tokenEnd, pos, 0, 0)
	case c == '\'' || c == '"' || c == '`':
		l.quotedMySQL(t)
	case c == '@':
		l.variable(t)
	case c == '?':
		l.pos++
		l.cut(t, tokenParam, pos, 0, 0)
	case isDigit(c) || c == '.' && isDigit(l.peek(1)):
		l.skipNumber()
		l.cut(t, tokenNumber, pos, 0, 0)
	case l.isLetter(c) || c == '$':
		l.skipWord()
		l.cut(t, tokenWord, pos, 0, 0)
	default:
		l.pos++
		l.broken = l.broken || c == '\\' && l.peek(0) != 'N' // \N is NULL
		l.cut(t, tokenSymbol, pos, 0, 0)
	}
}

func (l *lexer) skipWord() {
	for l.pos < len(l.text) && (l.isLetter(l.text[l.pos]) || isDigit(l.text[l.pos]) || l.text[l.pos] == '$') {
		l.pos++
	}
}

// skipNumber skips a number, or a name that starts with digits: neither is ever a function or a keyword.
func (l *lexer) skipNumber() {
	for isDigit(l.peek(0)) {
		l.pos++
	}
	if l.peek(0) != '.' {
		l.skipWord()
		return
	}
	for l.pos++; isDigit(l.peek(0)); {
		l.pos++
	}
}

// quotedMySQL reads a string or a quoted name. Only in a string can a backslash escape.
func (l *lexer) quotedMySQL(t *token) {
	pos, quote := l.pos, l.text[l.pos]
	l.pos++
	switch {
	case quote == '`':
		l.quoted(t, tokenName, quote, false, pos, 1)
	case quote == '"' && l.reading.ansiQuotes:
		l.quoted(t, tokenString, quote, false, pos, 1)
	default:
		l.quoted(t, tokenString, quote, !l.reading.flipBackslash, pos, 1)
	}
}

// variable reads @x, @'x', @@x, and the host of an account's name.
func (l *lexer) variable(t *token) {
	pos := l.pos
	for l.peek(0) == '@' {
		l.pos++
	}
	switch l.peek(0) {
	case '\'', '"', '`':
		l.quotedMySQL(t)
	default:
		for l.skipWord(); l.peek(0) == '.'; l.skipWord() {
			l.pos++
		}
	}
	l.cut(t, tokenVar, pos, 0, 0)
}

// skipMySQL skips blanks and comments, and the marks (only) of executable comments.
func (l *lexer) skipMySQL() {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; {
		case l.isBlank(c):
			l.pos++
		case c == '#' || c == '-' && l.peek(1) == '-' && (l.peek(2) <= ' ' || l.peek(2) == 0x7f || l.isBlank(l.peek(2))):
			l.skipLine(false)
		case c == '/' && l.peek(1) == '*':
			l.skipComment()
		case l.executing && c == '*' && l.peek(1) == '/':
			l.pos += 2
			l.executing = false
		default:
			return
		}
	}
}

// skipComment skips a comment, or the opening mark of an executable one: /*! and, for MariaDB alone, /*M!.
func (l *lexer) skipComment() {
	rest := l.text[l.pos+2:]
	maria := strings.HasPrefix(rest, "M!")
	if !maria && !strings.HasPrefix(rest, "!") {
		l.pos += 2
		l.skipTo('*', '/')
		return
	}
	l.executed = true
	digits := l.pos + 2 + strings.IndexByte(rest, '!') + 1
	version := digits
	for version < len(l.text) && version < digits+6 && isDigit(l.text[version]) {
		version++
	}
	if maria || !everyServer(l.text[digits:version]) {
		l.versioned++
		if l.reading.skipVersioned {
			l.skipVersioned()
			return
		}
	}
	l.pos, l.executing = version, true
}

// everyServer reports whether an executable comment of this version is run by every MySQL and MariaDB since 5.5.5.
// MySQL reads five digits, MariaDB (and newer MySQL, sometimes) six.
func everyServer(version string) bool {
	const oldest = "50505"
	switch len(version) {
	case 5:
		return version <= oldest
	case 6:
		return version[:5] <= oldest && version <= "0"+oldest
	}
	return true // fewer than five digits are no version
}

// skipVersioned skips an executable comment that the server does not run. One comment may be nested in it.
func (l *lexer) skipVersioned() {
	for l.pos += 2; l.pos < len(l.text); {
		switch {
		case l.text[l.pos] == '*' && l.peek(1) == '/':
			l.pos += 2
			return
		case l.text[l.pos] == '/' && l.peek(1) == '*':
			l.pos += 2
			l.skipTo('*', '/')
		default:
			l.pos++
		}
	}
	l.broken = true
}
