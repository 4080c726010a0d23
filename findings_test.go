package sqllock

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"testing"
)

// Servers are told by what version() answers, which both families have.
func TestIdentify(t *testing.T) {
	for text, want := range map[string]Server{
		"PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc":                         {Kind: "PostgreSQL", Version: "15.18"},
		"PostgreSQL 18.1 on aarch64-apple-darwin":                                                                   {Kind: "PostgreSQL", Version: "18.1"},
		"CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27 01:53:43, go1.19.10)":                      {Kind: "CockroachDB", Version: "23.1.11"},
		"PostgreSQL 11.2-YB-2.18.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 15.0.3":                   {Kind: "YugabyteDB", Version: "2.18.0.0"},
		"PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat), Redshift 1.0.5": {Kind: "Redshift", Version: "1.0.5"},
		"8.0.36":                 {Kind: "MySQL", Version: "8.0.36"},
		"8.0.36-0ubuntu0.22.04":  {Kind: "MySQL", Version: "8.0.36"},
		"10.11.19-MariaDB-deb12": {Kind: "MariaDB", Version: "10.11.19"},
		"5.7.25-TiDB-v6.5.0":     {Kind: "TiDB", Version: "6.5.0"},
		"8.0.30-Vitess":          {Kind: "Vitess", Version: "8.0.30"},
		"what is this":           {Kind: "MySQL", Version: ""},
	} {
		want.Text = text
		if got, d := identify(text); got != want || (d == DialectPostgres) != slices.Contains([]string{"PostgreSQL", "CockroachDB", "YugabyteDB", "Redshift"}, want.Kind) {
			t.Errorf("%s: %+v, %v", text, got, d)
		}
	}
}

func TestRefusedKinds(t *testing.T) {
	for kind, want := range map[string]bool{"PostgreSQL": false, "YugabyteDB": false, "CockroachDB": true, "Redshift": true} {
		f, refused := refuseKind(Server{Kind: kind})
		if refused != want || refused && f.Severity != SeverityError {
			t.Errorf("%s: %v, %v", kind, refused, f)
		}
	}
}

func TestJudgePostgres(t *testing.T) {
	for name, c := range map[string]struct {
		facts pgFacts
		pool  int
		want  []string // with their severities
	}{
		"default": {pgFacts{settings: map[string]string{"max_locks_per_transaction": "64", "max_connections": "100", "tcp_keepalives_idle": "7200"}}, 10,
			[]string{"info lock table", "info time-out"}},
		"standby": {pgFacts{standby: true, settings: map[string]string{"max_locks_per_transaction": "64", "max_connections": "100"}}, 0,
			[]string{"info lock table", "error standby"}},
		"full lock table": {pgFacts{locks: 3300, settings: map[string]string{"max_locks_per_transaction": "64", "max_connections": "100"}}, 0,
			[]string{"warning lock table"}},
		"PostgreSQL 17": {pgFacts{settings: map[string]string{"max_locks_per_transaction": "64", "max_connections": "100", "transaction_timeout": "5000"}}, 100,
			[]string{"info lock table", "warning time-out", "warning pool"}},
	} {
		var got []string
		for _, f := range c.facts.judge(c.pool) {
			got = append(got, f.Severity.String()+" "+f.Topic)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestJudgeMySQL(t *testing.T) {
	for name, c := range map[string]struct {
		vars map[string]string
		want []string
	}{
		"default":     {map[string]string{"read_only": "OFF", "wait_timeout": "28800", "version": "8.0.36"}, nil},
		"replica":     {map[string]string{"read_only": "ON", "wait_timeout": "28800"}, []string{"error standby"}},
		"Galera":      {map[string]string{"wsrep_on": "ON", "wait_timeout": "28800"}, []string{"error cluster"}},
		"old TiDB":    {map[string]string{"version": "5.7.25-TiDB-v5.4.0", "wait_timeout": "28800"}, []string{"error server"}},
		"TiDB":        {map[string]string{"version": "8.0.11-TiDB-v7.5.0", "wait_timeout": "28800"}, nil},
		"Vitess":      {map[string]string{"version": "8.0.30-Vitess", "wait_timeout": "28800"}, []string{"info server"}},
		"short waits": {map[string]string{"wait_timeout": "60"}, []string{"warning time-out"}},
	} {
		var got []string
		for _, f := range judgeMySQL(c.vars) {
			got = append(got, f.Severity.String()+" "+f.Topic)
			if f.Severity == SeverityError && (f.Remedy == "" || f.Seen == "") {
				t.Errorf("%s: says too little: %v", name, f)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestFindingsText(t *testing.T) {
	f := Findings{Server: Server{Kind: "PostgreSQL", Version: "15.18"}, Pooler: PoolerTransaction, List: []Finding{
		{SeverityInfo, "guard", "the pool's driver is guarded", "", ""},
		{SeverityError, "pooler", "a pooler", "it leaks", "go around it"},
	}}
	f.sort()
	const want = `PostgreSQL 15.18, through a pooler in transaction mode
error    pooler: a pooler
         why: it leaks
         remedy: go around it
info     guard: the pool's driver is guarded`
	if f.String() != want {
		t.Errorf("%s", f)
	}
	if err := f.Err(); !errors.Is(err, ErrUnsupported) || err.Error() != "sqllock: unsupported: PostgreSQL 15.18: a pooler: go around it" {
		t.Errorf("%v", err)
	}
	var s Severity
	if err := s.UnmarshalText([]byte("grave")); err == nil || s.UnmarshalText([]byte("warning")) != nil || s != SeverityWarning {
		t.Errorf("%v, %v", s, err)
	}
}

// rawConn is a wrapper of others, as otelsql's: it lets the driver's connection through, and hides what it does not forward.
type rawConn struct {
	driver.Conn
	inner driver.Conn
}

func (c rawConn) Raw() driver.Conn { return c.inner }

type validRawConn struct{ rawConn }

func (validRawConn) IsValid() bool { return true }

// The guard is found beneath wrappers, and whether they hide its IsValid.
func TestBeneathWrappers(t *testing.T) {
	srv := newFakeServer(t)
	db := OpenDB(fakeConnector{&fakeDriver{srv, modern}}, WithDialect(DialectPostgres), WithReport(srv.report))
	t.Cleanup(func() { _ = db.Close() })
	c, err := db.Conn(context.Background())
	must(t, "", err)
	defer c.Close()
	must(t, "", c.Raw(func(dc any) error {
		inner := dc.(driver.Conn)
		for name, w := range map[string]struct {
			conn            any
			guarded, hidden bool
		}{
			"bare":             {dc, true, false},
			"hiding":           {rawConn{nil, inner}, true, true},
			"forwarding":       {validRawConn{rawConn{nil, inner}}, true, false},
			"no guard":         {rawConn{nil, rawConn{}}, false, false},
			"another's driver": {struct{}{}, false, false},
		} {
			if g, _, hidden := beneath(w.conn); (g != nil) != w.guarded || hidden != w.hidden {
				t.Errorf("%s: guarded %v, hidden %v", name, g != nil, hidden)
			}
		}
		return nil
	}))
}
