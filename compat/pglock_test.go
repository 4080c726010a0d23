package compat

// A library that cannot be had as a module everywhere: its statements in its order, as its source has them.
var leaksPglock = []leak{
	{"allisson/go-pglock 3.2.0", "`Close` of a lock that is held (re-enacted)", closePglock, nil},
}

// Its Close is documented to release the locks. It is sql.Conn's, which gives the connection back to the pool.
func closePglock(p *pool) {
	conn, err := p.db.Conn(p.Context())
	p.must(err)
	var locked bool
	p.must(conn.QueryRowContext(p.Context(), "SELECT pg_try_advisory_lock($1)", p.key()).Scan(&locked))
	p.got(locked)
	p.must(conn.Close())
}
