package sqllock

import "strings"

// mysql says what one statement of a MySQL or MariaDB text does, apart from its plain form.
func (p *part) mysql(r *recogniser) statement {
	var s statement
	switch {
	case p.compound:
		s.may = p.compoundMay()
	case p.blocks > 0 && p.more: // BEGIN without END: perhaps it was a name, and statements of their own follow
		s.may = allClasses
	default:
		p.mysqlVerb(r, &s)
	}
	p.addCalls(&s)
	return s
}

func (p *part) mysqlVerb(r *recogniser, s *statement) {
	switch {
	case p.is(0, "LOCK"):
		p.lock(r.text, s)
	case p.is(0, "UNLOCK"):
		p.unlock(s)
	case p.is(0, "FLUSH"):
		p.flush(r.text, s)
	case p.is(0, "BACKUP"):
		p.backup(r.text, s)
	case p.is(0, "HANDLER"):
		p.handler(s)
	case p.is(0, "PREPARE"):
		s.marks = p.dynamic(r, 3).classes()
	case p.is(0, "EXECUTE") && p.is(1, "IMMEDIATE"):
		*s = p.dynamic(r, 2)
	case p.is(0, "EXECUTE"):
		s.runs = true
	case p.is(0, "CALL") && p.calls&callRunner != 0:
		s.may = allClasses
	default:
		s.verb = p.transaction(DialectMySQL)
	}
}

// object returns the name that starts with the i-th token, as the text has it: t, db.t.
func (p *part) object(text string, i int) string {
	t := p.at(i)
	end := t.end
	for ; p.at(i+1).is('.') && p.at(i+2).kind != tokenEnd; i += 2 {
		end = p.at(i + 2).end
	}
	return text[t.pos:end]
}

func (p *part) lock(text string, s *statement) {
	switch {
	case p.is(1, "TABLE"), p.is(1, "TABLES"):
		s.verb, s.object = verbLockTables, p.object(text, 2)
	case p.is(1, "INSTANCE"):
		s.verb = verbLockInstance
	default:
		s.may = classTables
	}
}

func (p *part) unlock(s *statement) {
	switch {
	case p.is(1, "TABLE"), p.is(1, "TABLES"):
		s.verb = verbUnlockTables
	case p.is(1, "INSTANCE"):
		s.verb = verbUnlockInstance
	default:
		s.frees = classTables
	}
}

// flush: FLUSH [NO_WRITE_TO_BINLOG | LOCAL] TABLE[S] [list] WITH READ LOCK [AND DISABLE CHECKPOINT] | FOR EXPORT.
// With a list it is freed like LOCK TABLES, FOR EXPORT too; without one it is the global lock.
func (p *part) flush(text string, s *statement) {
	i := 1
	if p.is(i, "NO_WRITE_TO_BINLOG") || p.is(i, "LOCAL") {
		i++
	}
	tables := p.is(i, "TABLE") || p.is(i, "TABLES")
	i++
	switch {
	case tables && p.is(i, "WITH") && p.is(i+1, "READ") && p.is(i+2, "LOCK"):
		s.verb = verbLockGlobal
	case tables && (p.last(1).word("LOCK") && p.last(2).word("READ") || p.last(1).word("EXPORT") && p.last(2).word("FOR")):
		s.verb, s.object = verbLockTables, p.object(text, i)
	case p.locks > 0 || p.words&wordExport != 0:
		s.may = classTables
	}
}

// backup: a stage is object STAGE, apart from the locks of BACKUP LOCK: BACKUP UNLOCK does not end the stage.
func (p *part) backup(text string, s *statement) {
	switch {
	case p.is(1, "STAGE") && p.is(2, "END"):
		s.verb, s.object = verbBackupEnd, "STAGE"
	case p.is(1, "STAGE"):
		s.verb, s.object = verbBackup, "STAGE"
	case p.is(1, "LOCK"):
		s.verb, s.object = verbBackup, p.object(text, 2)
	case p.is(1, "UNLOCK"):
		s.verb = verbBackupEnd
	default:
		s.may = classTables
	}
}

// handler: an open handler goes by its alias or else by its table's name, without the database.
func (p *part) handler(s *statement) {
	i := 1
	for p.at(i + 1).is('.') {
		i += 2
	}
	name := p.at(i).text
	switch {
	case p.is(i+1, "CLOSE"):
		s.verb, s.object = verbHandlerClose, name
	case !p.is(i+1, "OPEN"):
	case p.is(i+2, "AS"):
		s.verb, s.object = verbHandlerOpen, p.at(i+3).text
	case p.at(i + 2).named():
		s.verb, s.object = verbHandlerOpen, p.at(i+2).text
	default:
		s.verb, s.object = verbHandlerOpen, name
	}
}

// dynamic returns what a text may do that stands as one literal at i, or everything if it is made in another way.
func (p *part) dynamic(r *recogniser, i int) statement {
	const longest = 1 << 16
	t := p.at(i)
	alone := p.n == i+1 || p.is(i+1, "USING")
	if t.kind != tokenString || !alone || r.nested || len(t.text) > longest || strings.IndexByte(t.text, '\\') >= 0 {
		return statement{may: allClasses}
	}
	text := t.text
	if quote := string(rune(t.quote)); t.escapes {
		text = strings.ReplaceAll(text, quote+quote, quote)
	}
	inner := recogniser{dialect: r.dialect, text: text, fns: r.fns, nested: true}
	s := inner.recognise()
	if s.runs {
		return statement{may: allClasses}
	}
	return several(s, statement{})
}

// classes returns every class that s, which has no verb, may change.
func (s statement) classes() class {
	all := s.may | s.frees | s.marks
	if s.opens || s.ends {
		all |= classTx
	}
	return all
}

// opensCompound reports whether a statement that starts with t is a compound one: the server runs all of it as a program.
// BEGIN is not here: whether it starts a transaction or a block shows in the next token.
func opensCompound(t *token) bool {
	for _, w := range []string{"IF", "CASE", "LOOP", "WHILE", "REPEAT", "FOR", "DECLARE"} {
		if t.word(w) {
			return true
		}
	}
	return false
}

// compoundMay returns what the statements in a compound one may do, as their first words tell.
func (p *part) compoundMay() class {
	var may class
	if p.words&(wordExecute|wordPrepare) != 0 {
		may |= allClasses
	}
	if p.locks > 0 || p.words&(wordUnlock|wordFlush|wordBackup) != 0 {
		may |= classTables
	}
	if p.words&wordHandler != 0 {
		may |= classHandler
	}
	if p.words&wordStart != 0 || p.last(1).word("BEGIN") {
		may |= classTx
	}
	return may
}
