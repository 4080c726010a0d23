package sqllock_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqllock/sqllock"
	"github.com/sqllock/sqllock/internal/testbed"
)

var (
	differentialN    = flag.Int("differential.n", 5000, "how many statements TestDifferential sends to each server")
	differentialSeed = flag.Uint64("differential.seed", 0, "the seed of TestDifferential; 0: a new one")
)

// TestDifferential is the soundness test. It sends random statements through guarded pools and asks the server from
// outside what the session holds: a connection whose session holds a lock must not have been kept.
func TestDifferential(t *testing.T) {
	t.Parallel()
	seed := *differentialSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -run TestDifferential -differential.seed=%d -differential.n=%d", seed, *differentialN)
	servers := []struct {
		name     string
		server   func(testing.TB) *testbed.Server
		dialect  *dialect
		variants []variant
	}{
		{"PostgreSQL", testbed.Postgres, postgresDialect, []variant{
			{stack: onPgx}, {stack: onPgx, params: "default_query_exec_mode=cache_describe"}, {stack: onPgx, params: "default_query_exec_mode=describe_exec"},
			{stack: onPgx, params: "default_query_exec_mode=exec"}, {stack: onPgx, params: "default_query_exec_mode=simple_protocol"},
			{stack: onPQ}, {stack: onPQ, params: "binary_parameters=yes"},
			{stack: onPgx, policy: sqllock.Reset}, {stack: onPQ, policy: sqllock.Reset}, {stack: onPQ, probe: sqllock.ProbeAlways},
		}},
		{"MySQL", testbed.MySQL, mysqlDialect, mysqlVariants(onMySQL)},
		{"MariaDB", testbed.MariaDB, mariadbDialect, mysqlVariants(onMariaDB)},
	}
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			d := &differential{t: t, server: s.server(t).NewDatabase(t), seed: seed, variants: s.variants}
			d.outside = lookAt(t, d.server)
			d.outside.makeTable(t)
			dialect := *s.dialect
			dialect.database = d.outside.database(t)
			d.dialect = &dialect
			d.run(*differentialN)
		})
	}
}

func mysqlVariants(k stack) []variant {
	const common = "multiStatements=true&lock_wait_timeout=2"
	return []variant{
		{stack: k, params: common}, {stack: k, params: common + "&interpolateParams=true"}, {stack: k, params: common + "&columnsWithAlias=true&parseTime=true"},
		{stack: k, params: common, policy: sqllock.Reset}, {stack: k, params: common + "&interpolateParams=true", probe: sqllock.ProbeAlways},
	}
}

// A variant is a way to open a pool.
type variant struct {
	stack  stack
	params string
	policy sqllock.Policy
	probe  sqllock.Probe
}

type differential struct {
	t        *testing.T
	server   *testbed.Server
	outside  *outside
	dialect  *dialect
	variants []variant
	seed     uint64

	sessions []*session // two for each variant, kept from round to round
	count    struct {
		statements, rounds, holding, needless, discardable, innocent, innocentProbes int
	}
}

// A session is a pool of one connection, and what has been done on that.
type session struct {
	*rig
	reset   bool   // its policy is Reset
	history []step // since its connection was opened; "return" between rounds
}

func (d *differential) run(n int) {
	d.sessions = make([]*session, 2*len(d.variants))
	misses := 0
	for round := uint64(0); d.count.statements < n && misses < 10; round++ {
		g := &generator{Rand: rand.New(rand.NewPCG(d.seed, round)), dialect: d.dialect, calls: true}
		v := g.IntN(len(d.variants))
		g.pgx = d.variants[v].stack.name == onPgx.name
		g.noExec = d.variants[v].stack.name == onMariaDB.name
		innocent := g.chance(20)
		steps, i := g.round, v
		if innocent { // on a session of its own: what others have prepared there would be in doubt
			steps, i = g.innocentRound, v+len(d.variants)
		}
		if d.sessions[i] == nil {
			d.sessions[i] = d.open(d.variants[v])
		}
		s := d.sessions[i]
		if round%50 == 49 { // some statements' work grows with the table's square
			d.outside.exec(d.t, "TRUNCATE TABLE t", "INSERT INTO t VALUES (1, 'x')")
		}
		played := steps()
		o := d.play(s, played, innocent && !slices.ContainsFunc(played, mayBegin))
		if o.wrong != "" {
			misses++
			s.DB.Close()
			d.sessions[i] = nil
			d.outside.awaitFree(d.t, 2*time.Second)
			d.t.Errorf("seed %d, round %d, %s %q: %s\n\t%s", d.seed, round, d.variants[v].stack.name, d.variants[v].params, o.wrong, d.shrink(d.variants[v], s.history, o.wrong))
		}
	}
	c := d.count
	d.t.Logf("%d statements in %d rounds, %d of which ended with a lock held or a transaction open, %d misses. Without either: %d discards in %d returns (%.2f%%). Without any lock call: %d returns, %d probes",
		c.statements, c.rounds, c.holding, misses, c.needless, c.discardable, 100*float64(c.needless)/float64(max(1, c.discardable)), c.innocent, c.innocentProbes)
}

// mayBegin finds a text that hides a BEGIN where its quotes end sooner than the generator meant. The server may refuse all of
// it, which lib/pq does not tell: the guard then discards for the transaction that may be open (case P152).
func mayBegin(s step) bool { return laterBegin.MatchString(s.text) }

var laterBegin = regexp.MustCompile(`(?i);\s*(BEGIN|START)\b`)

func (d *differential) open(v variant) *session {
	r := d.outside.pool(d.t, v.stack, d.server, v.params, sqllock.WithPolicy(v.policy), sqllock.WithProbe(v.probe))
	r.DB.SetMaxOpenConns(1)
	return &session{rig: r, reset: v.policy == sqllock.Reset}
}

// A roundOutcome is what a round led to.
type roundOutcome struct {
	wrong string // what the guard did wrong; "" for nothing
	held  []string
	kept  bool
}

// play does the steps on one pinned connection of s, gives it back and compares.
func (d *differential) play(s *session, steps []step, innocent bool) (o roundOutcome) {
	s.history = append(s.history, steps...)
	before := s.stats()
	for _, st := range steps {
		if st.text != "" {
			d.count.statements++
		}
	}
	pin := s.pin()
	playSteps(pin, steps)
	o.held = append(d.outside.held(d.t), d.outside.openTx(d.t)...)
	o.kept = s.giveBack(pin)
	d.count.rounds++
	after := s.stats()
	switch left := d.left(o.kept); {
	case len(left) > 0:
		o.wrong = fmt.Sprintf("left after the return (kept: %v): %q", o.kept, left)
	case len(o.held) > 0:
		d.count.holding++
		if o.kept && !s.reset && !cancels(steps) {
			o.wrong = fmt.Sprintf("kept although it held %q", o.held)
		}
	case innocent:
		d.count.innocent++
		d.count.innocentProbes += int(after.Probes - before.Probes)
		if !o.kept && after.ConnsDiscarded > before.ConnsDiscarded {
			o.wrong = "discarded although no lock function was called"
		}
	default:
		d.count.discardable++
		if after.ConnsDiscarded > before.ConnsDiscarded {
			d.count.needless++
			if *differentialVerbose {
				d.t.Logf("needless: %v", s.history)
			}
		}
	}
	if o.wrong == "" && !o.kept {
		s.history = nil
	} else {
		s.history = append(s.history, step{how: "return"})
	}
	return o
}

var differentialVerbose = flag.Bool("differential.needless", false, "print each needless discard of TestDifferential")

// cancels reports whether database/sql may have rolled a transaction back after the look that came before the return.
func cancels(steps []step) bool {
	return slices.ContainsFunc(steps, func(s step) bool { return s.how == "cancel" })
}

// left returns what is held after the return. What a discarded session held may take a moment to go.
func (d *differential) left(kept bool) []string {
	deadline := time.Now().Add(250 * time.Millisecond)
	for {
		left := append(d.outside.held(d.t), d.outside.openTx(d.t)...)
		if len(left) == 0 || kept || time.Now().After(deadline) {
			return left
		}
		time.Sleep(time.Millisecond)
	}
}

func playSteps(pin *sql.Conn, steps []step) {
	var tx *sql.Tx
	var cancel context.CancelFunc
	for _, s := range steps {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		var c interface {
			querier
			PrepareContext(context.Context, string) (*sql.Stmt, error)
		} = pin
		if tx != nil {
			c = tx
		}
		switch s.how {
		case "begin":
			var txCtx context.Context
			txCtx, cancel = context.WithCancel(context.Background())
			tx, _ = pin.BeginTx(txCtx, nil)
		case "commit", "rollback", "cancel":
			if tx != nil {
				endTx(tx, s.how, cancel)
			}
			tx = nil
		case "exec":
			c.ExecContext(ctx, s.text, s.args...)
		case "query", "row":
			readSome(func() (*sql.Rows, error) { return c.QueryContext(ctx, s.text, s.args...) }, s)
		default:
			if stmt, err := c.PrepareContext(ctx, s.text); err == nil {
				if s.how == "prepare+exec" {
					stmt.ExecContext(ctx, s.args...)
				} else {
					readSome(func() (*sql.Rows, error) { return stmt.QueryContext(ctx, s.args...) }, s)
				}
				stmt.Close()
			}
		}
		stop()
	}
	if tx != nil {
		tx.Rollback()
	}
	if cancel != nil {
		cancel()
	}
}

func endTx(tx *sql.Tx, how string, cancel context.CancelFunc) {
	switch how {
	case "commit":
		tx.Commit()
	case "rollback":
		tx.Rollback()
	case "cancel":
		cancel() // Conn.Close waits until database/sql has rolled back
	}
}

// readSome reads as much of a result as the step wants. "row" is what QueryRow does.
func readSome(query func() (*sql.Rows, error), s step) {
	rows, err := query()
	if err != nil {
		return
	}
	defer rows.Close()
	limit := s.rows
	if s.how == "row" {
		limit = 1
	}
	for n := 0; n != limit && rows.Next(); n++ {
		columns, _ := rows.Columns()
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		rows.Scan(values...)
	}
	for limit < 0 && rows.NextResultSet() {
		for rows.Next() {
		}
	}
}

// shrink looks for the shortest history that goes wrong in the same way, on fresh pools.
func (d *differential) shrink(v variant, history []step, wrong string) string {
	kind, _, _ := strings.Cut(wrong, " ")
	fails := func(steps []step) bool {
		s := d.open(v)
		defer d.outside.awaitFree(d.t, time.Second)
		defer s.DB.Close()
		for round := range splitRounds(steps) {
			if o := d.play(s, round, kind == "discarded"); strings.HasPrefix(o.wrong, kind) {
				return true
			}
		}
		return false
	}
	counts := d.count
	defer func() { d.count = counts }()
	if !fails(history) {
		return "not repeatable on a fresh connection:\n\t" + lines(history)
	}
	for i := 0; i < len(history); {
		without := slices.Concat(history[:i], history[i+1:])
		if fails(without) {
			history = without
		} else {
			i++
		}
	}
	return "shrunk to:\n\t" + lines(history)
}

func splitRounds(steps []step) func(yield func([]step) bool) {
	return func(yield func([]step) bool) {
		for len(steps) > 0 {
			i := slices.IndexFunc(steps, func(s step) bool { return s.how == "return" })
			if i < 0 {
				yield(steps)
				return
			}
			if i > 0 && !yield(steps[:i]) {
				return
			}
			steps = steps[i+1:]
		}
	}
}

func lines(steps []step) string {
	var all []string
	for _, s := range steps {
		all = append(all, s.String())
	}
	return strings.Join(all, "\n\t")
}
