package sqllock

import (
	"math"
	"strconv"
)

// plain returns the verb of a text that is one lock call and nothing else, with its keys: then text and result prove
// what happened. Everything else is not plain, and ok is false.
func (p *part) plain(d Dialect) (s statement, ok bool) {
	if p.n > headSize || p.wrapped || !p.is(0, "SELECT") && !(p.is(0, "DO") && d == DialectMySQL) {
		return s, false
	}
	i := 1
	if d == DialectPostgres && p.schema(1, "pg_catalog") && p.at(2).is('.') {
		i = 3
	}
	if !p.at(i).named() || !p.at(i+1).is('(') {
		return s, false
	}
	fn := p.at(i).function(d)
	s.verb, s.shared = fn.verb, fn.shared
	i += 2
	if fn.verb == verbNone {
		return s, false
	}
	if fn.verb != verbReleaseAll {
		if i, ok = p.keys(d, i, &s); !ok {
			return statement{}, false
		}
	}
	if !p.at(i).is(')') || !p.ends(d, i+1) {
		return statement{}, false
	}
	return s, true
}

// schema reports whether the i-th token names the schema: in any case if it is not quoted.
func (p *part) schema(i int, name string) bool {
	t := p.at(i)
	return t.word(name) || t.kind == tokenName && t.text == name
}

// ends reports whether at most an alias follows.
func (p *part) ends(d Dialect, i int) bool {
	if p.n > i && p.is(0, "DO") {
		return false
	}
	as := p.is(i, "AS")
	if as {
		i++
	}
	t := p.at(i)
	switch {
	case p.n == i:
		return !as
	case p.n > i+1:
		return false
	case t.word("ISNULL") || t.word("NOTNULL"): // operators
		return as
	}
	return t.named() || d == DialectMySQL && t.kind == tokenString
}

// keys reads the arguments and returns the place behind them.
func (p *part) keys(d Dialect, i int, s *statement) (int, bool) {
	if d == DialectMySQL {
		return p.keysMySQL(i, s)
	}
	return p.keysPostgres(i, s)
}

// keysMySQL reads ('name', time-out) or ('name').
func (p *part) keysMySQL(i int, s *statement) (int, bool) {
	t := p.at(i)
	switch {
	case t.kind == tokenParam:
		s.keys[0].param = 1
	case t.kind == tokenString && !t.escapes:
		s.keys[0].text = t.text
	default:
		return i, false
	}
	s.nkeys = 1
	i++
	if s.verb == verbRelease {
		return i, true
	}
	if !p.at(i).is(',') {
		return i, false
	}
	i++
	if p.at(i).is('-') || p.at(i).is('+') {
		i++
	}
	t = p.at(i)
	return i + 1, t.kind == tokenParam || t.kind == tokenNumber && isDecimal(t.text)
}

// isDecimal reports whether a number consists of digits and at most one point.
func isDecimal(s string) bool {
	points := 0
	for i := 0; i < len(s); i++ {
		if s[i] == '.' {
			points++
		} else if !isDigit(s[i]) {
			return false
		}
	}
	return points <= 1
}

// keysPostgres reads (bigint) or (int, int).
func (p *part) keysPostgres(i int, s *statement) (int, bool) {
	var first, second integer
	i, ok := first.read(p, i)
	s.keys[0], s.nkeys = first.operand, 1
	if !ok || !p.at(i).is(',') {
		return i, ok
	}
	i, ok = second.read(p, i+1)
	s.keys[1], s.nkeys = second.operand, 2
	return i, ok && first.short && second.short
}

// An integer is an argument of PostgreSQL's functions.
type integer struct {
	operand
	short bool // it can be an int4
}

// read reads a literal or a parameter, perhaps with a cast, and returns the place behind it.
func (n *integer) read(p *part, i int) (int, bool) {
	if p.is(i, "CAST") && p.at(i+1).is('(') {
		i, ok := n.value(p, i+2)
		return i + 3, ok && p.is(i, "AS") && n.cast(p.at(i+1)) && p.at(i+2).is(')')
	}
	i, ok := n.value(p, i)
	if ok && p.at(i).is(':') && p.at(i+1).is(':') {
		return i + 3, n.cast(p.at(i + 2))
	}
	return i, ok
}

func (n *integer) value(p *part, i int) (int, bool) {
	sign := ""
	switch t := p.at(i); {
	case t.kind == tokenParam:
		ordinal, err := strconv.Atoi(t.text)
		n.param, n.short = ordinal, true
		return i + 1, err == nil && ordinal > 0
	case t.is('-'):
		sign = "-"
		i++
	case t.is('+'):
		i++
	}
	t := p.at(i)
	if t.kind != tokenNumber || !isDigit(t.text[0]) {
		return i, false
	}
	v, err := strconv.ParseInt(sign+t.text, 10, 64)
	n.text, n.short = strconv.FormatInt(v, 10), math.MinInt32 <= v && v <= math.MaxInt32
	return i + 1, err == nil
}

// cast applies a cast to the type that t names, if it is an integer's.
func (n *integer) cast(t *token) bool {
	switch {
	case t.word("BIGINT"), t.word("INT8"):
		n.short = false
		return true
	case t.word("INT"), t.word("INT4"), t.word("INTEGER"):
		return n.short
	}
	return false
}
