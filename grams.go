package sqllock

// A gramTable finds words in any case at a fraction of the text's places: are the four bytes there four neighbours of
// a word's letters? A word of n letters has n-3 of these places in a row, so that looking at every (n-3)th place of the
// text is enough. The table answers with the way from there to the part of the word that is then compared, or with 0.
// Texts full of the words' own letters cost some comparisons more and no more than that.
type gramTable [1 << gramBits]uint8

const (
	gramBits = 12
	// gramFactor spreads the words' grams so that no two of them meet in a table.
	gramFactor = 0x9e3779b1
	// ahead keeps the way positive.
	ahead = 16

	fold4 = 0x20202020
	fold8 = 0x2020202020202020
)

func gramOf(x uint32) uint32 { return (x | fold4) * gramFactor >> (32 - gramBits) }

// gramsOf makes the table of words of which the first n grams count, and whose part to compare starts at part.
func gramsOf(n, part int, words ...string) *gramTable {
	t := new(gramTable)
	for _, w := range words {
		for i := range n {
			t[gramOf(load4(w[i:]))] = uint8(part - i + ahead)
		}
	}
	return t
}

func load4(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func load8(s string) uint64 {
	_ = s[7]
	return uint64(load4(s)) | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// What all names of PostgreSQL's functions have in common: pg_advisory_ or try_advisory_, then lock, unlock or xact.
var (
	postgresGrams = gramsOf(postgresStride, 3, "pg_advisory_lo", "ry_advisory_un", "ry_advisory_xa")
	advisory      = load8("advisory") | fold8
)

const (
	postgresWord   = "_advisory_"
	postgresStride = 11
)

// mentionsPostgres reports whether text contains the name of a lock function, in any case.
func mentionsPostgres(text string) bool {
	const n = postgresStride
	t, i := postgresGrams, 0
	for ; i+4*n <= len(text); i += 4 * n {
		w := text[i : i+4*n]
		a, b := t[gramOf(load4(w[0:4]))], t[gramOf(load4(w[n:n+4]))]
		c, d := t[gramOf(load4(w[2*n:2*n+4]))], t[gramOf(load4(w[3*n:3*n+4]))]
		if a|b|c|d != 0 && (advisoryAt(text, i, a) || advisoryAt(text, i+n, b) || advisoryAt(text, i+2*n, c) || advisoryAt(text, i+3*n, d)) {
			return true
		}
	}
	for ; i+4 <= len(text); i += n {
		if advisoryAt(text, i, t[gramOf(load4(text[i:]))]) {
			return true
		}
	}
	return false
}

// advisoryAt reports whether the gram at i, of which the table says way, is one of _advisory_'s.
func advisoryAt(text string, i int, way uint8) bool {
	s := i + int(way) - ahead
	return way != 0 && s >= 1 && s+8 < len(text) && load8(text[s:])|fold8 == advisory && text[s-1] == '_' && text[s+8] == '_'
}

// What the names of MySQL's functions end in.
var (
	mysqlGrams = gramsOf(mysqlStride, 4, "get_lock", "ase_lock", "all_lock")
	lock       = load4("lock") | fold4
)

const mysqlStride = 5

// mentionsMySQL reports whether text contains the name of a lock function, in any case.
func mentionsMySQL(text string) bool {
	const n = mysqlStride
	t, i := mysqlGrams, 0
	for ; i+8*n <= len(text); i += 8 * n {
		w := text[i : i+8*n]
		a, b := t[gramOf(load4(w[0:4]))], t[gramOf(load4(w[n:n+4]))]
		c, d := t[gramOf(load4(w[2*n:2*n+4]))], t[gramOf(load4(w[3*n:3*n+4]))]
		e, f := t[gramOf(load4(w[4*n:4*n+4]))], t[gramOf(load4(w[5*n:5*n+4]))]
		g, h := t[gramOf(load4(w[6*n:6*n+4]))], t[gramOf(load4(w[7*n:7*n+4]))]
		if a|b|c|d|e|f|g|h == 0 {
			continue
		}
		if lockAt(text, i, a) || lockAt(text, i+n, b) || lockAt(text, i+2*n, c) || lockAt(text, i+3*n, d) ||
			lockAt(text, i+4*n, e) || lockAt(text, i+5*n, f) || lockAt(text, i+6*n, g) || lockAt(text, i+7*n, h) {
			return true
		}
	}
	for ; i+4 <= len(text); i += n {
		if lockAt(text, i, t[gramOf(load4(text[i:]))]) {
			return true
		}
	}
	return false
}

// lockAt reports whether the gram at i, of which the table says way, is one of t_lock's, e_lock's or l_lock's.
func lockAt(text string, i int, way uint8) bool {
	s := i + int(way) - ahead
	if way == 0 || s < 2 || s+4 > len(text) || load4(text[s:])|fold4 != lock || text[s-1] != '_' {
		return false
	}
	c := text[s-2] | 0x20
	return c == 't' || c == 'e' || c == 'l'
}
