package sqllock

// A wordSet says which words of interest a part contains, anywhere.
type wordSet uint16

const (
	wordExecute wordSet = 1 << iota
	wordFetch           // FETCH, MOVE
	wordPrepare         // PREPARE, IMMEDIATE
	wordLock            // LOCK, but not LOCK IN SHARE MODE
	wordUnlock
	wordFlush
	wordHandler // HANDLER, but not a condition's: CONTINUE HANDLER
	wordBackup
	wordStart // START, XA, CHAIN
	wordExport
	wordRoutine // FUNCTION, PROCEDURE, TRIGGER, EVENT, PACKAGE
)

// wordsOf returns what the unquoted word is.
func wordsOf(word string) wordSet {
	var buf [10]byte
	if len(word) > len(buf) {
		return 0
	}
	n := copy(buf[:], word)
	switch string(foldAll(buf[:n])) {
	case "execute":
		return wordExecute
	case "fetch", "move":
		return wordFetch
	case "prepare", "immediate":
		return wordPrepare
	case "lock":
		return wordLock
	case "unlock":
		return wordUnlock
	case "flush":
		return wordFlush
	case "handler":
		return wordHandler
	case "backup":
		return wordBackup
	case "start", "xa", "chain":
		return wordStart
	case "export":
		return wordExport
	case "function", "procedure", "trigger", "event", "package":
		return wordRoutine
	}
	return 0
}

// headSize is how many tokens of a part are kept: more than the longest plain form has.
const headSize = 20

// A part is one statement of a text: its first tokens, and what one pass over all of them found.
type part struct {
	head [headSize]token
	part0
}

// part0 is the part of a part that starts at zero for each.
type part0 struct {
	n     int // tokens, also those that head has no room for
	words wordSet
	calls callSet

	compound bool // MariaDB: a compound statement; it takes in everything to the end of the text
	wrapped  bool // MariaDB: SET STATEMENT ... FOR stood in front of it
	names    bool // PostgreSQL: a string names a lock function
	hides    bool // PostgreSQL: a string of a DO may do what cannot be seen

	prev, prev2 token // the last two tokens
	parens      int   // open parentheses
	blocks      int   // open BEGIN and CASE in the body of a routine
	locks       int   // LOCK without those of LOCK IN SHARE MODE
	closed      bool  // the last word closed a block
	more        bool  // something stands behind a semicolon that did not end the statement
}

// at returns the i-th token of the head; one of kind tokenEnd behind the end.
func (p *part) at(i int) token {
	if i < p.n && i < headSize {
		return p.head[i]
	}
	return token{}
}

// is reports whether the i-th token is the unquoted word w, in upper case.
func (p *part) is(i int, w string) bool { return p.at(i).word(w) }

// read reads tokens up to the end of a statement and reports whether another may follow.
func (p *part) read(l *lexer, fns lockFunctions) bool {
	p.part0 = part0{}
	for {
		t := l.next()
		if t.kind == tokenEnd {
			return false
		}
		if t.is(';') && p.parens <= 0 && p.blocks <= 0 && !p.compound {
			return true
		}
		p.add(l.dialect, t, fns)
	}
}

// add takes one more token in.
func (p *part) add(d Dialect, t token, fns lockFunctions) {
	if p.n < headSize {
		p.head[p.n] = t
	}
	p.n++
	p.more = p.more || p.prev.is(';') && !t.is(';')
	if t.named() && p.projected() {
		p.call(d, t, fns)
	}
	switch t.kind {
	case tokenSymbol:
		p.symbol(d, t, fns)
	case tokenWord:
		p.word(d, t)
	case tokenString:
		p.literal(d, t, fns)
	}
	p.prev2, p.prev = p.prev, t
	if d == DialectMySQL {
		p.unwrap(t)
	}
}

func (p *part) symbol(d Dialect, t token, fns lockFunctions) {
	switch t.text[0] {
	case '(':
		p.parens++
		if p.prev.named() || d == DialectMySQL && p.prev.quote == '"' {
			p.call(d, p.prev, fns)
		}
	case ')':
		p.parens--
	}
}

// projected reports whether a name comes that is a function in PostgreSQL's attribute notation: (1::bigint).pg_advisory_lock.
func (p *part) projected() bool {
	return p.prev.is('.') && (p.prev2.is(')') || p.prev2.is(']') || p.prev2.kind == tokenParam)
}

// call notes a call of what t names.
func (p *part) call(d Dialect, t token, fns lockFunctions) {
	p.calls |= t.function(d).calls
	if fns.contains(t.text) {
		p.calls |= callAcquire
	}
}

func (p *part) literal(d Dialect, t token, fns lockFunctions) {
	if d != DialectPostgres {
		return
	}
	p.names = p.names || containsFold(t.text, "_advisory_") || fns.mentioned(t.text)
	if p.is(0, "DO") {
		p.hides = p.hides || hides(t)
		p.words |= movesCursor(t)
	}
}

// word notes an unquoted word, unless it is the name of a column or a table.
func (p *part) word(d Dialect, t token) {
	if p.prev.is('.') {
		return
	}
	switch w := wordsOf(t.text); {
	case w == wordHandler && (p.prev.word("CONTINUE") || p.prev.word("EXIT") || p.prev.word("UNDO")):
	case w == wordLock:
		p.locks++
	default:
		p.words |= w
	}
	if p.prev.word("LOCK") && t.word("IN") {
		p.locks--
	}
	if p.words&wordRoutine != 0 && (p.is(0, "CREATE") || p.is(0, "ALTER")) {
		p.block(d, t)
	}
}

// block counts the blocks in the body of a routine, as psql does: a semicolon in them does not end the statement.
func (p *part) block(d Dialect, t token) {
	closed := p.closed
	p.closed = false
	switch {
	case closed && p.prev.word("END") && (t.word("IF") || t.word("LOOP") || t.word("WHILE") || t.word("REPEAT") || t.word("FOR")):
		p.blocks++ // these do not count, so that their END did not close a block
	case t.word("BEGIN") && d == DialectMySQL, t.word("ATOMIC") && p.prev.word("BEGIN"):
		p.blocks++
	case p.blocks == 0:
	case t.word("END"):
		p.blocks--
		p.closed = true
	case t.word("CASE") && !p.prev.word("END"):
		p.blocks++
	}
}

// unwrap notes the start of a compound statement, and forgets the SET STATEMENT ... FOR in front of another.
func (p *part) unwrap(t token) {
	switch {
	case p.n == 1:
		p.compound = opensCompound(t)
	case p.n == 2 && p.is(0, "BEGIN"):
		p.compound = !t.word("WORK")
	case t.word("FOR") && p.parens == 0 && p.is(0, "SET") && p.is(1, "STATEMENT"):
		p.n, p.wrapped = 0, true
	}
}
