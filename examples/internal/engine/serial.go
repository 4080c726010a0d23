package engine

import (
	"context"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// serial lets the engine do one statement at a time: in memory it knows no concurrency, so that a session which reads a
// table can undo what another one writes to it meanwhile. Calls that wait for a lock stay outside.
type serial struct{ mu sync.Mutex }

func (s *serial) turn(query string) (end func()) {
	if strings.Contains(query, "_LOCK") {
		return func() {}
	}
	s.mu.Lock()
	return s.mu.Unlock
}

func (s *serial) option() server.Option {
	var chain server.InterceptorChain
	chain.WithInterceptor(s)
	return chain.Option()
}

func (s *serial) Priority() int { return 0 }

func (s *serial) Query(ctx context.Context, next server.Chain, c *mysql.Conn, query string, f func(*sqltypes.Result, bool) error) error {
	defer s.turn(query)()
	return next.ComQuery(ctx, c, query, f)
}

func (s *serial) ParsedQuery(next server.Chain, c *mysql.Conn, query string, _ sqlparser.Statement, f func(*sqltypes.Result, bool) error) error {
	return s.Query(context.Background(), next, c, query, f)
}

func (s *serial) MultiQuery(ctx context.Context, next server.Chain, c *mysql.Conn, query string, f func(*sqltypes.Result, bool) error) (string, error) {
	defer s.turn(query)()
	return next.ComMultiQuery(ctx, c, query, f)
}

func (s *serial) Prepare(ctx context.Context, next server.Chain, c *mysql.Conn, query string, p *mysql.PrepareData) ([]*querypb.Field, error) {
	defer s.turn(query)()
	return next.ComPrepare(ctx, c, query, p)
}

func (s *serial) StmtExecute(ctx context.Context, next server.Chain, c *mysql.Conn, p *mysql.PrepareData, f func(*sqltypes.Result) error) error {
	defer s.turn(p.PrepareStmt)()
	return next.ComStmtExecute(ctx, c, p, f)
}
