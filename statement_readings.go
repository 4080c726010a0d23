package sqllock

import (
	"strings"
	"unicode/utf8"
)

// A recogniser recognises one text.
type recogniser struct {
	dialect Dialect
	text    string
	fns     lockFunctions
	nested  bool // the text stood in another: PREPARE ... FROM '...'
}

// quoteReadings are the readings of a text with a backslash; without one they are all the same.
var quoteReadings = [...]reading{{}, {flipBackslash: true}, {ansiQuotes: true}}

// recognise reads the text in every way that can make a difference. If all say the same, that is the answer; else
// each is possible and nothing is plain.
func (r *recogniser) recognise() statement {
	quotes, charsets := 1, charsetUTF8
	if strings.IndexByte(r.text, '\\') >= 0 {
		quotes = len(quoteReadings)
	}
	if r.dialect != DialectMySQL || strings.IndexByte(r.text, '"') < 0 {
		quotes = min(quotes, 2)
	}
	if !utf8.ValidString(r.text) {
		charsets = charsetDouble
	}
	var o outcome
	for _, reading := range quoteReadings[:quotes] {
		for reading.charset = charsetUTF8; reading.charset <= charsets; reading.charset++ {
			r.versions(reading, &o)
		}
	}
	return o.statement()
}

// versions reads the text with and, if it has some, without the comments that not every server executes. With several
// of them there are servers that execute only some: then it is anybody's guess.
func (r *recogniser) versions(reading reading, o *outcome) {
	versioned := r.read(reading, o)
	if versioned == 0 {
		return
	}
	reading.skipVersioned = true
	versioned = max(versioned, r.read(reading, o))
	if versioned > 1 && !ordinary(r.dialect, r.text) {
		o.add(statement{may: allClasses}, false)
	}
}

// read reads the text in one way, adds what it says to o, and returns how many versioned comments it met.
func (r *recogniser) read(reading reading, o *outcome) int {
	l := lexer{dialect: r.dialect, reading: reading, text: r.text}
	var only, sum statement
	var first token
	tokens, parts := 0, 0
	var p part
	for more := true; more; {
		more = p.read(&l, r.fns)
		if p.n == 0 && !p.wrapped {
			continue
		}
		if parts++; parts == 1 {
			first, tokens = p.at(0), p.n
			only = r.part(&p, &l)
			continue
		}
		if parts == 2 {
			sum.fold(only)
		}
		sum.fold(r.part(&p, &l))
	}
	if parts == 1 {
		sum = only
	}
	if r.dialect == DialectPostgres && parts > 0 && preparedName(first, tokens, parts) {
		sum.may |= classLocks
	}
	// A text that ends within a string is a syntax error. PostgreSQL then runs nothing of it, MySQL what stands before.
	o.add(sum, l.open && (parts <= 1 || r.dialect == DialectPostgres))
	return l.versioned
}

// part says what one statement of the text does.
func (r *recogniser) part(p *part, l *lexer) statement {
	if s, ok := p.plain(r.dialect); ok && !l.executed {
		return s
	}
	if r.dialect == DialectPostgres {
		return p.postgres()
	}
	s := p.mysql(r)
	if p.wrapped {
		var sum statement
		sum.fold(s)
		return sum
	}
	return s
}

// An outcome is what the readings of a text have said up to now.
type outcome struct {
	valid, void       statement
	hasValid, hasVoid bool
}

// add adds a reading. One under which the text is a syntax error (void) counts only if there is no other.
func (o *outcome) add(s statement, void bool) {
	if void {
		o.void, o.hasVoid = either(o.void, s, o.hasVoid), true
		return
	}
	o.valid, o.hasValid = either(o.valid, s, o.hasValid), true
}

func (o *outcome) statement() statement {
	if o.hasValid {
		return o.valid
	}
	return o.void
}

// either returns what is known if one of two readings is right, and nobody can tell which.
func either(a, b statement, hasA bool) statement {
	if !hasA || a == b {
		return b
	}
	var sum statement
	sum.fold(a)
	sum.fold(b)
	if sum.opens || sum.ends {
		sum.opens, sum.ends = false, false
		sum.may |= classTx
	}
	return sum
}

// fold adds one of several statements: no verb is plain then, but the last word on transactions counts.
func (sum *statement) fold(s statement) {
	switch {
	case s.verb == verbBegin || s.opens:
		sum.opens, sum.ends = true, false
	case s.verb == verbEnd || s.ends:
		sum.opens, sum.ends = false, true
	case s.verb == verbDiscardAll: // not possible together with others: it fails
	case s.verb.releases():
		sum.frees |= touches(0, s.verb)
	default:
		sum.may |= touches(0, s.verb)
	}
	sum.may |= s.may
	sum.frees |= s.frees
	sum.marks |= s.marks
	sum.cursor = sum.cursor || s.cursor
	sum.runs = sum.runs || s.runs
	sum.txLock = sum.txLock || s.txLock || s.verb == verbTxLock || s.verb == verbTryTxLock
}
