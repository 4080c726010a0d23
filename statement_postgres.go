package sqllock

import "strings"

// postgres says what one statement of a PostgreSQL text does, apart from its plain form.
func (p *part) postgres() statement {
	var s statement
	if p.calls&callRunner != 0 && p.names {
		s.may |= classLocks
	}
	s.runs = p.words&(wordExecute|wordFetch) != 0 || p.calls&callRunner != 0
	switch {
	case p.is(0, "DO"):
		p.doBlock(&s)
	case p.is(0, "PREPARE") && p.calls&(callAcquire|callRelease) != 0:
		return statement{marks: classLocks}
	case p.is(0, "PREPARE"):
		return statement{verb: p.transaction(DialectPostgres)}
	case p.is(0, "DECLARE") && p.calls&(callAcquire|callRelease|callRunner) != 0:
		// WITH HOLD outside of a transaction runs at once
		s.may, s.marks, s.cursor = classLocks, classLocks, true
	case p.is(0, "DISCARD") && p.is(1, "ALL"):
		s.verb = verbDiscardAll
	case p.is(0, "DEALLOCATE") && (p.is(1, "ALL") || p.is(1, "PREPARE") && p.is(2, "ALL")):
		s.verb = verbDeallocateAll
	case p.is(0, "CLOSE") && p.is(1, "ALL"):
		s.verb = verbCloseAll
	default:
		s.verb = p.transaction(DialectPostgres)
	}
	p.addCalls(&s)
	return s
}

// addCalls adds what the called functions may do.
func (p *part) addCalls(s *statement) {
	switch {
	case p.calls&callAcquire != 0:
		s.may |= classLocks
	case p.calls&callRelease != 0:
		s.frees |= classLocks
	}
	s.txLock = s.txLock || p.calls&callTxLock != 0
}

// doBlock looks at the body of a DO, which is a string. What other languages than PL/pgSQL do cannot be seen.
func (p *part) doBlock(s *statement) {
	foreign := false
	for i := 1; i < headSize; i++ {
		foreign = foreign || p.is(i-1, "LANGUAGE") && !equalFold(p.at(i).text, "plpgsql")
	}
	if p.names || p.hides || foreign {
		s.may |= classLocks
	}
}

// hides reports whether the body of a DO may acquire a lock: it names one, runs a text that it makes, or has escapes.
func hides(t *token) bool {
	if t.quote == 'U' || t.quote != '$' && strings.IndexByte(t.text, '\\') >= 0 {
		return true
	}
	for _, part := range []string{"advisory", "execute", `u&"`, "_to_xml", "ts_stat", "ts_rewrite", "crosstab", "connectby", "xpath_table"} {
		if containsFold(t.text, part) {
			return true
		}
	}
	return false
}

// movesCursor reports as wordFetch that the body of a DO may fetch from a cursor.
func movesCursor(t *token) wordSet {
	if containsFold(t.text, "fetch") || containsFold(t.text, "move") {
		return wordFetch
	}
	return 0
}

// preparedName reports whether a text that starts with first and has so many tokens and statements may be no statement
// but the name of a prepared one: pgx runs that if its name is sent as a query. A name of several words that starts
// like a statement (lock it) cannot be told from one; lock-it can.
func preparedName(text string, first *token, tokens, parts int) bool {
	switch {
	case first.is('('):
		return false
	case tokens == 1 && parts == 1:
		return !first.word("BEGIN") && !endsTransaction(first, DialectPostgres)
	case first.kind != tokenWord || !statementWord(first.text):
		return true
	}
	rest := text[first.end:]
	return !first.word("SELECT") && !endsWord(rest) && !strings.HasPrefix(rest, "--") && !strings.HasPrefix(rest, "/*")
}

// endsWord reports whether rest, which stands behind a statement's first word, starts like the rest of a statement.
// A name goes on otherwise: lock-job, lock:job, lock.job.
func endsWord(rest string) bool {
	return rest == "" || isBlank(rest[0]) || strings.IndexByte(`;(*"'$`, rest[0]) >= 0
}

// statementWord reports whether word starts a statement of PostgreSQL.
func statementWord(word string) bool {
	var buf [10]byte
	if len(word) > len(buf) {
		return false
	}
	n := copy(buf[:], word)
	switch string(foldAll(buf[:n])) {
	case "abort", "alter", "analyse", "analyze", "begin", "call", "checkpoint", "close", "cluster", "comment", "commit",
		"copy", "create", "deallocate", "declare", "delete", "discard", "do", "drop", "end", "execute", "explain", "fetch",
		"grant", "import", "insert", "listen", "load", "lock", "merge", "move", "notify", "prepare", "reassign", "refresh",
		"reindex", "release", "repack", "reset", "revoke", "rollback", "savepoint", "security", "select", "set", "show",
		"start", "table", "truncate", "unlisten", "update", "vacuum", "values", "wait", "with":
		return true
	}
	return false
}
