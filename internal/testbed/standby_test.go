package testbed

import (
	"testing"
	"time"
)

func TestStandby(t *testing.T) {
	t.Parallel()
	primary := StartPostgres(t, "synchronous_commit=remote_apply")
	standby := primary.StartStandby(t)
	primary.Synchronous(t)
	own := primary.NewDatabase(t)
	execute(t, own.Outside(t), "CREATE TABLE t AS SELECT 7 AS a")

	there := own.At(standby).Outside(t)
	query(t, there, "SELECT a FROM t") // synchronous: it is there by now
	if _, err := there.ExecContext(t.Context(), "INSERT INTO t VALUES (8)"); err == nil {
		t.Error("a standby took a write")
	}
	query(t, there, "SELECT CASE WHEN pg_is_in_recovery() THEN 1 END")

	primary.Kill9(t)
	standby.Promote(t)
	execute(t, there, "INSERT INTO t VALUES (8)")
	own.At(standby).AwaitFree(t, 5*time.Second)
}

// A standby of a shared server would stay in every other test's way.
func TestStandbyOfASharedServer(t *testing.T) {
	s := Postgres(t)
	if got := watch(func(t testing.TB) { s.StartStandby(t) }); got.how != "fatal" {
		t.Errorf("got %+v", got)
	}
}

// Without synchronous replication a commit does not wait for a standby that hangs.
func TestStandbyIsAsynchronousByDefault(t *testing.T) {
	t.Parallel()
	primary := StartPostgres(t, "synchronous_commit=on")
	primary.StartStandby(t)
	var names string
	if err := primary.Outside(t).QueryRow("SHOW synchronous_standby_names").Scan(&names); err != nil || names != "" {
		t.Errorf("synchronous_standby_names = %q, %v", names, err)
	}
}
