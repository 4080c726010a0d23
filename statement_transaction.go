package sqllock

// transaction returns verbBegin or verbEnd for a statement that opens or ends a transaction, else verbNone.
func (p *part) transaction(d Dialect) verb {
	switch {
	case p.is(0, "BEGIN"), p.is(0, "START") && p.is(1, "TRANSACTION"):
		return verbBegin
	case p.is(0, "XA") && d == DialectMySQL:
		return p.xa()
	case p.is(0, "PREPARE") && p.is(1, "TRANSACTION") && p.at(2).kind == tokenString && d == DialectPostgres:
		return verbEnd
	case endsTransaction(p.at(0), d):
		return p.end()
	}
	return verbNone
}

func endsTransaction(t *token, d Dialect) bool {
	return t.word("COMMIT") || t.word("ROLLBACK") || d == DialectPostgres && (t.word("END") || t.word("ABORT"))
}

// end returns what a COMMIT or a ROLLBACK is: to a savepoint or of a prepared transaction it ends nothing.
func (p *part) end() verb {
	i := 1
	if p.is(i, "WORK") || p.is(i, "TRANSACTION") {
		i++
	}
	switch {
	case p.is(i, "TO"), p.is(i, "PREPARED"):
		return verbNone
	case p.is(i, "AND") && p.is(i+1, "CHAIN"):
		return verbBegin
	}
	return verbEnd
}

// xa: a transaction between XA END and XA COMMIT still belongs to the session.
func (p *part) xa() verb {
	switch {
	case p.is(1, "START"), p.is(1, "BEGIN"):
		return verbBegin
	case p.is(1, "COMMIT"), p.is(1, "ROLLBACK"):
		return verbEnd
	}
	return verbNone
}
