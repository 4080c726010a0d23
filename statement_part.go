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
	tokens [headSize + 4]token // the first ones and, behind them, the last ones by turns
	findings
}

// findings are what is known of a part up to its n-th token.
type findings struct {
	n     int
	words wordSet
	calls callSet

	compound bool // MariaDB: a compound statement; it takes in everything to the end of the text
	wrapped  bool // MariaDB: SET STATEMENT ... FOR stood in front of it
	names    bool // PostgreSQL: a string names a lock function
	hides    bool // PostgreSQL: a string of a DO may do what cannot be seen

	parens int  // open parentheses
	blocks int  // open BEGIN and CASE in the body of a routine
	locks  int  // LOCK without those of LOCK IN SHARE MODE
	closed bool // the last word closed a block
	more   bool // something that may matter stands behind a semicolon that did not end the statement
}

// place returns where the i-th token is, or was until three others came.
func (p *part) place(i int) *token {
	if i >= headSize {
		i = headSize + i&3
	}
	return &p.tokens[i]
}

var noToken token

// at returns the i-th token of the head; one of kind tokenEnd behind the end.
func (p *part) at(i int) *token {
	if i < p.n && i < headSize {
		return &p.tokens[i]
	}
	return &noToken
}

// last returns the token before the last k-1 ones: last(1) is the last.
func (p *part) last(k int) *token {
	if p.n < k {
		return &noToken
	}
	return p.place(p.n - k)
}

// is reports whether the i-th token is the unquoted word w, in upper case.
func (p *part) is(i int, w string) bool { return p.at(i).word(w) }

// read reads tokens up to the end of a statement and reports whether another may follow.
func (p *part) read(l *lexer, fns lockFunctions) bool {
	p.findings = findings{}
	for {
		t := p.place(p.n)
		l.next(t)
		switch {
		case t.kind == tokenEnd:
			return false
		case t.is(';') && p.parens <= 0 && p.blocks <= 0 && !p.compound:
			return true
		}
		p.take(l.dialect, t, fns)
		p.n++
		if l.dialect == DialectMySQL {
			p.unwrap(t)
		}
	}
}

// take takes in what t, the token behind the last, adds to the findings.
func (p *part) take(d Dialect, t *token, fns lockFunctions) {
	prev := p.last(1)
	if prev.is(';') && t.kind == tokenWord && second(d, t.text) {
		p.more = true
	}
	if prev.is('.') && t.named() && p.projected() {
		p.call(d, t, fns)
	}
	if prev.kind == tokenWord && prev.word("BEGIN") && (t.is(';') || t.word("WORK")) {
		p.words |= wordStart // a transaction's, not a block's
	}
	switch t.kind {
	case tokenSymbol:
		p.symbol(d, t, prev, fns)
	case tokenWord:
		p.word(d, t, prev)
	case tokenString:
		p.literal(d, t, fns)
	}
}

func (p *part) symbol(d Dialect, t, prev *token, fns lockFunctions) {
	switch t.text[0] {
	case '(':
		p.parens++
		if prev.named() || d == DialectMySQL && prev.quote == '"' {
			p.call(d, prev, fns)
		}
	case ')':
		p.parens--
	}
}

// projected reports whether the name behind a point is a function in PostgreSQL's attribute notation:
// (1::bigint).pg_advisory_lock.
func (p *part) projected() bool {
	owner := p.last(2)
	return owner.is(')') || owner.is(']') || owner.kind == tokenParam
}

// call notes a call of what t names.
func (p *part) call(d Dialect, t *token, fns lockFunctions) {
	p.calls |= t.function(d).calls
	if fns.contains(t.text) {
		p.calls |= callAcquire
	}
}

func (p *part) literal(d Dialect, t *token, fns lockFunctions) {
	if d != DialectPostgres {
		return
	}
	p.names = p.names || containsFold(t.text, postgresWord) || fns.mentioned(t.text)
	if p.is(0, "DO") {
		p.hides = p.hides || hides(t)
		p.words |= movesCursor(t)
	}
}

// word notes an unquoted word, unless it is the name of a column or a table.
func (p *part) word(d Dialect, t, prev *token) {
	if prev.is('.') {
		return
	}
	switch w := wordsOf(t.text); {
	case w == wordHandler && (prev.word("CONTINUE") || prev.word("EXIT") || prev.word("UNDO")):
	case w == wordLock:
		p.locks++
	default:
		p.words |= w
	}
	if prev.word("LOCK") && t.word("IN") {
		p.locks--
	}
	if p.words&wordRoutine != 0 && (p.is(0, "CREATE") || p.is(0, "ALTER")) {
		p.block(d, t, prev)
	}
}

// block counts the blocks in the body of a routine, as psql does: a semicolon in them does not end the statement.
func (p *part) block(d Dialect, t, prev *token) {
	closed := p.closed
	p.closed = false
	switch {
	case closed && prev.word("END") && (t.word("IF") || t.word("LOOP") || t.word("WHILE") || t.word("REPEAT") || t.word("FOR")):
		p.blocks++ // these do not count, so that their END did not close a block
	case t.word("BEGIN") && d == DialectMySQL, t.word("ATOMIC") && prev.word("BEGIN"):
		p.blocks++
	case p.blocks == 0 || prev.word("AS"): // AS end: an alias
	case t.word("END"):
		p.blocks--
		p.closed = true
	case t.word("CASE") && !prev.word("END"):
		p.blocks++
	}
}

// unwrap notes the start of a compound statement, and forgets the SET STATEMENT ... FOR in front of another.
func (p *part) unwrap(t *token) {
	switch {
	case p.n == 1:
		p.compound = opensCompound(t)
	case p.n == 2 && p.is(0, "BEGIN"):
		p.compound = !t.word("WORK")
	case t.word("FOR") && p.parens == 0 && p.is(0, "SET") && p.is(1, "STATEMENT"):
		p.n, p.wrapped = 0, true
	}
}
