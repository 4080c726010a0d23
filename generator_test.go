package sqllock_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A step is one thing that a program does on a connection.
type step struct {
	how  string // "query", "row", "exec", "prepare+query", "prepare+exec"; "begin", "commit", "rollback", "cancel": of a *sql.Tx
	text string
	args []any
	rows int // of a query: how many rows are read before it is closed; -1: all of every result set
}

func (s step) String() string {
	b := s.how
	if s.text != "" {
		b += fmt.Sprintf(" %q", s.text)
	}
	for _, a := range s.args {
		b += fmt.Sprintf(", %T(%v)", a, a)
	}
	if s.rows >= 0 && strings.HasSuffix(s.how, "query") {
		b += fmt.Sprintf(" (%d rows read)", s.rows)
	}
	return b
}

// A generator writes statements. It knows nothing of how the guard recognises them: it only puts calls of lock
// functions, and texts that look like them, wherever it can.
type generator struct {
	*rand.Rand
	dialect *dialect
	pgx     bool
	noExec  bool // the driver hangs in Exec of a prepared statement that returns rows
	params  bool // the statement may have parameters
	args    []any
	calls   bool // lock functions may be called
}

// A dialect is what differs between the servers.
type dialect struct {
	database  string
	dollar    bool // parameters are $1, not ?
	call      func(g *generator, functions []string) string
	spaces    []string // what may stand between tokens
	acquires  []string
	tries     []string // acquires whose result can stand where a truth value is wanted
	all       []string
	suffixes  []string // behind a SELECT of one call
	templates []string // «C» a call, «B» one with a truth value, «S» a string, «W» white space or comment, «N» a digit, «Q» a call to stand in a string, «F» an acquiring function's name
	session   []string // statements about the session: transactions, prepared statements, cursors, other locks
	innocent  []string // statements that concern no session lock
	settings  []string
	quote     []func(g *generator, content string) string
	name      func(content string) string // a quoted identifier
}

// The text between « and » is replaced.
func (g *generator) expand(template string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(template, "«")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		what, after, _ := strings.Cut(rest, "»")
		template = after
		switch what {
		case "C":
			b.WriteString(g.dialect.call(g, g.dialect.all))
		case "B":
			b.WriteString(g.dialect.call(g, g.dialect.tries))
		case "A":
			b.WriteString(g.dialect.call(g, g.dialect.acquires))
		case "F":
			b.WriteString(g.pick(g.dialect.tries...))
		case "S":
			b.WriteString(g.str())
		case "W":
			b.WriteString(g.blank())
		case "N":
			fmt.Fprint(&b, g.IntN(3))
		case "D":
			b.WriteString(g.dialect.database)
		case "Q":
			b.WriteString(strings.ReplaceAll(g.quotedCall(), "'", "''"))
		default:
			panic("template: " + what)
		}
	}
}

// quotedCall is a call to stand in a string that the server runs. Its name has no escapes: where a function, such as
// ts_stat, runs the string, a name is sought there as it is written.
func (g *generator) quotedCall() string {
	params := g.params
	defer func() { g.params = params }()
	g.params = false
	for {
		if call := g.dialect.call(g, g.dialect.all); !strings.Contains(call, `&"`) {
			return call
		}
	}
}

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

// chance is true p times of 100.
func (g *generator) chance(p int) bool { return g.IntN(100) < p }

// space is mostly nothing.
func (g *generator) space() string {
	if g.chance(85) {
		return ""
	}
	return g.blank()
}

// blank is white space or a comment. An innocent text has none of which the server's version decides whether it is one:
// two of these, a quote in doubt and a lock function's name in a string make a text that the guard may refuse to judge.
func (g *generator) blank() string {
	for {
		if s := g.pick(g.dialect.spaces...); g.calls || !strings.HasPrefix(s, "/*M!") && !strings.HasPrefix(s, "/*!9") {
			return s
		}
	}
}

// content is what makes a lexer stumble.
func (g *generator) content() string {
	var b strings.Builder
	for range 1 + g.IntN(4) {
		switch g.IntN(4) {
		case 0:
			b.WriteString(g.pick("pg_advisory_lock(1)", "GET_LOCK('d1',1)", "LOCK TABLES t WRITE", "EXECUTE p1", "; BEGIN", "it's"))
		default:
			b.WriteString(g.pick("'", "\"", "\\", "$$", "$a$", "--", "-- ", "/*", "*/", "#", "`", ";", "x", " ", "\n", "\\'", "''", "é", "$", "/*!", "%", "?", "e", "U&"))
		}
	}
	return b.String()
}

func (g *generator) str() string {
	quote := g.dialect.quote
	return quote[g.IntN(len(quote))](g, g.content())
}

// weave is a SELECT of strings, aliases, comments and calls side by side.
func (g *generator) weave() string {
	var items []string
	for range 1 + g.IntN(4) {
		item := "1"
		switch {
		case g.calls && g.chance(35):
			item = g.expand("«C»")
		case g.chance(80):
			item = g.str()
		}
		item += g.space()
		if g.chance(40) {
			item += " AS " + g.dialect.name(g.content())
		}
		items = append(items, item)
	}
	text := "SELECT " + g.space() + strings.Join(items, ","+g.space())
	if g.chance(20) {
		text += g.space() + g.comment()
	}
	return text
}

func (g *generator) comment() string {
	c := strings.NewReplacer("/*", "", "*/", "").Replace(g.content())
	if g.chance(50) {
		return " -- " + strings.ReplaceAll(c, "\n", " ")
	}
	return "/* " + strings.NewReplacer("/*", "", "*/", "").Replace(c) + " */"
}

// mutate changes a few bytes, so that most texts become syntax errors and some something surprising.
func (g *generator) mutate(text string) string {
	for range 1 + g.IntN(2) {
		at := g.IntN(len(text) + 1)
		switch g.IntN(3) {
		case 0:
			text = text[:at] + g.pick("'", "\"", "\\", "$$", "/*", "*/", "--", ";", "(", ")", " ", "\n", "`", "#", "/*!", "E", ",") + text[at:]
		case 1:
			text = text[:at] + text[min(len(text), at+1+g.IntN(3)):]
		case 2:
			if to := min(len(text), at+1+g.IntN(8)); to > at {
				text = text[:to] + text[at:to] + text[to:]
			}
		}
	}
	return text
}

// round is what happens between taking a connection and giving it back.
func (g *generator) round() (steps []step) {
	if g.chance(8) {
		steps = append(steps, g.send(g.pick(g.dialect.settings...)))
	}
	n, tx := 1+g.IntN(5), false
	for i := range n {
		switch {
		case !tx && g.chance(10):
			steps, tx = append(steps, step{how: "begin"}), true
		case tx && g.chance(25):
			steps, tx = append(steps, step{how: g.pick("commit", "rollback", "cancel")}), false
		}
		if i == 0 && g.chance(5) {
			steps = append(steps, g.send(g.pick(g.dialect.settings...)))
		}
		steps = append(steps, g.statement())
	}
	if tx {
		steps = append(steps, step{how: g.pick("commit", "rollback", "cancel")})
	}
	return steps
}

// innocentRound calls no lock function and leaves no transaction open.
func (g *generator) innocentRound() (steps []step) {
	g.calls = false
	defer func() { g.calls = true }()
	for range 1 + g.IntN(5) {
		text := g.weave()
		if g.chance(70) {
			text = g.expand(g.pick(g.dialect.innocent...))
		}
		if strings.Contains(text, `\`) {
			// whether a backslash escapes is the session's setting: what follows a semicolon may be a statement, then
			text = strings.ReplaceAll(text, ";", ",")
		}
		if g.chance(15) {
			steps = append(steps, step{how: "begin"}, g.send(text), step{how: g.pick("commit", "rollback")})
			continue
		}
		steps = append(steps, g.send(text))
	}
	return steps
}

func (g *generator) statement() step {
	g.args, g.params = nil, g.chance(30)
	defer func() { g.params = false }()
	var text string
	switch p := g.IntN(100); {
	case p < 35:
		text = g.expand("SELECT «C»")
	case p < 42:
		text = g.expand("SELECT" + g.pick(" ", "«W»") + "«C»" + g.pick(g.dialect.suffixes...))
	case p < 65:
		text = g.expand(g.pick(g.dialect.templates...))
	case p < 72:
		text = g.weave()
	case p < 78:
		g.params = false
		for i := range 2 + g.IntN(2) {
			if i > 0 {
				text += g.pick(";", "; ", " ;\n")
			}
			text += g.expand(g.pick("SELECT «C»", g.pick(g.dialect.templates...), g.pick(g.dialect.session...), g.pick(g.dialect.innocent...)))
		}
	case p < 92:
		text = g.expand(g.pick(g.dialect.session...))
	default:
		text = g.expand(g.pick(g.dialect.innocent...))
	}
	if g.chance(7) {
		text = g.mutate(text)
	}
	return g.send(text, g.args...)
}

// send chooses how a text is sent.
func (g *generator) send(text string, args ...any) step {
	s := step{how: "query", text: text, args: args, rows: -1}
	switch p := g.IntN(100); {
	case p < 40:
	case p < 50:
		s.rows = g.IntN(3)
	case p < 65:
		s.how = "row"
	case p < 88:
		s.how = "exec"
	case p < 95:
		s.how = "prepare+query"
	default:
		s.how = "prepare+exec"
	}
	if g.noExec && (s.how == "prepare+exec" || s.how == "exec" && len(args) > 0) {
		s.how = "prepare+query"
	}
	if g.pgx && g.chance(5) && !strings.HasPrefix(s.how, "prepare") {
		modes := []any{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeCacheDescribe}
		s.args = append([]any{modes[g.IntN(len(modes))]}, s.args...)
	}
	return s
}

// arg adds an argument and returns its place holder.
func (g *generator) arg(v any) string {
	g.args = append(g.args, v)
	if g.dialect.dollar {
		return fmt.Sprint("$", len(g.args))
	}
	return "?"
}

func (g *generator) randomCase(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' && g.chance(50) {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
