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

// longestRead is the size of the longest text that is read in every way. For a longer one that would take too long.
const longestRead = 1 << 18

// recognise reads the text in every way that can make a difference. If all say the same, that is the answer; else
// each is possible and nothing is plain.
func (r *recogniser) recognise() statement {
	var o outcome
	quotes, charsets := r.readings()
	if len(r.text) > longestRead && (quotes > 1 || charsets > charsetUTF8) {
		o.add(statement{may: r.guess()}, false)
		quotes, charsets = 1, charsetUTF8
	}
	for _, reading := range quoteReadings[:quotes] {
		for reading.charset = charsetUTF8; reading.charset <= charsets; reading.charset++ {
			r.versions(reading, &o)
		}
	}
	return o.statement()
}

// readings returns how many of quoteReadings and up to which character set the text must be read.
func (r *recogniser) readings() (quotes int, charsets charset) {
	quotes = 1
	if ordinary(r.dialect, r.text) && !r.fns.mentioned(r.text) {
		return quotes, charsetUTF8 // in no reading it does anything
	}
	if strings.IndexByte(r.text, '\\') >= 0 {
		quotes = 2
		if r.dialect == DialectMySQL && strings.IndexByte(r.text, '"') >= 0 {
			quotes = len(quoteReadings)
		}
	}
	if !utf8.ValidString(r.text) {
		charsets = charsetDouble
	}
	return quotes, charsets
}

// versions reads the text with and, if it has some, without the comments that not every server executes. With several
// of them there are servers that execute only some: then it is anybody's guess.
func (r *recogniser) versions(reading reading, o *outcome) {
	versioned := r.read(reading, o)
	if versioned == 0 {
		return
	}
	if len(r.text) <= longestRead {
		reading.skipVersioned = true
		versioned = max(versioned, r.read(reading, o))
	}
	if versioned > 1 || len(r.text) > longestRead {
		o.add(statement{may: r.guess()}, false)
	}
}

// guesses are words, in lower case, without which no text can do anything to a class.
var guesses = []struct {
	word string
	may  class
}{
	{"advisory", classLocks}, {`u&"`, classLocks}, {"lock", classLocks | classTables}, {"export", classTables}, {"backup", classTables},
	{"handler", classHandler}, {"begin", classTx}, {"start", classTx}, {"chain", classTx}, {"execute", allClasses}, {"prepare", allClasses},
}

// guess returns what a text may do that cannot be read in every way, going by the words in it.
func (r *recogniser) guess() class {
	var may class
	if r.fns.mentioned(r.text) {
		may = classLocks
	}
	if ordinary(r.dialect, r.text) {
		return may
	}
	for i := 0; i < len(r.text) && may != allClasses; i++ {
		switch lower(r.text[i]) {
		case 'a', 'b', 'c', 'e', 'h', 'l', 'p', 's', 'u': // the words' first letters: this loop must be fast
			may |= guessAt(r.text[i:])
		}
	}
	if r.dialect == DialectPostgres {
		may &= classLocks | classTx // the others are MySQL's
	}
	return may
}

func guessAt(text string) class {
	for _, g := range guesses {
		if len(text) >= len(g.word) && equalFold(text[:len(g.word)], g.word) {
			return g.may
		}
	}
	return 0
}

// read reads the text in one way, adds what it says to o, and returns how many versioned comments it met.
func (r *recogniser) read(reading reading, o *outcome) int {
	l := lexer{dialect: r.dialect, reading: reading, text: r.text}
	var p part
	var sum statement
	var first token
	tokens, parts, void := 0, 0, false
	for more := true; more; {
		more = p.read(&l, r.fns)
		if p.n == 0 && !p.wrapped {
			continue
		}
		if parts++; parts > 1 {
			sum = several(sum, r.part(&p, &l))
			continue
		}
		sum, first, tokens = r.part(&p, &l), *p.at(0), p.n
		void = l.broken // MySQL does not even begin with it; of what comes later it runs what stands before the error
	}
	if r.dialect == DialectPostgres {
		void = l.broken // it reads the whole text first
		if parts > 0 && preparedName(r.text, &first, tokens, parts) {
			sum = several(sum, statement{may: classLocks})
		}
	}
	o.add(sum, void)
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
		return several(s, statement{})
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
	sum := several(a, b)
	if sum.opens || sum.ends {
		sum.opens, sum.ends = false, false
		sum.may |= classTx
	}
	return sum
}

// several returns what two statements in one text do.
func several(a, b statement) statement {
	var sum statement
	sum.fold(a)
	sum.fold(b)
	return sum
}

// fold adds one of several statements: no verb is plain then, but the last word on transactions counts.
func (s *statement) fold(next statement) {
	switch {
	case next.verb == verbBegin || next.opens:
		s.opens, s.ends = true, false
	case next.verb == verbEnd || next.ends:
		s.opens, s.ends = false, true
	case next.verb == verbDiscardAll: // together with others it fails
	case next.verb.releases():
		s.frees |= touches(0, next.verb)
	default:
		s.may |= touches(0, next.verb)
	}
	s.may |= next.may
	s.frees |= next.frees
	s.marks |= next.marks
	s.cursor = s.cursor || next.cursor
	s.runs = s.runs || next.runs
	s.txLock = s.txLock || next.txLock || next.verb == verbTxLock || next.verb == verbTryTxLock
}
