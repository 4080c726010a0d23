package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// mysql looks at a server of MySQL's family.
func (c *checker) mysql(ctx context.Context) error {
	vars, err := (&mysqlSQL{}).variables(ctx, &session{conn: c.first.Conn})
	if err != nil {
		return err
	}
	c.found.List = append(c.found.List, judgeMySQL(vars)...)
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only"} {
		c.found.Standby = c.found.Standby || isOn(vars[name])
	}
	second, err := c.second(ctx)
	if err != nil {
		return c.noSecond(ctx, false, err)
	}
	defer second.close()
	mode, err := (&experiment{clients: [2]*client{c.first, second}, reopen: c.second}).mode(ctx, false)
	if err != nil {
		return c.noSecond(ctx, false, err)
	}
	if mode != PoolerNone {
		c.found.Pooler = mode
		c.pooler(mode)
		return nil // a lock would stay behind
	}
	return c.tryNames(ctx, second)
}

// judgeMySQL says what a server's variables mean for locks.
func judgeMySQL(vars map[string]string) (found []Finding) {
	if err := refuseServer(vars, false); err != nil {
		topic := "standby"
		if isOn(vars["wsrep_on"]) {
			topic = "cluster"
		} else if strings.Contains(vars["version"], "TiDB") {
			topic = "server"
		}
		seen, remedy := splitRefusal(err)
		found = append(found, Finding{Severity: SeverityError, Topic: topic, Seen: seen, Why: "every replica lets its own holder win", Remedy: remedy})
	}
	if strings.Contains(vars["version"], "Vitess") {
		found = append(found, Finding{
			Severity: SeverityInfo, Topic: "server", Seen: "Vitess wants lock functions alone in a SELECT", Why: "sqllock's lockers send them so",
		})
	}
	seconds, err := strconv.ParseInt(vars["wait_timeout"], 10, 64)
	if wait := time.Duration(seconds) * time.Second; err == nil && wait < 10*time.Minute {
		found = append(found, Finding{
			Severity: SeverityWarning, Topic: "time-out", Seen: fmt.Sprintf("wait_timeout is %v", wait),
			Why:    "a session that holds a lock and sends nothing for so long is ended, and the lock is lost: not those of sqllock's lockers, which keep theirs alive",
			Remedy: "take locks through sqllock's lockers, or raise it",
		})
	}
	return found
}

// splitRefusal takes a locker's refusal apart: the thing, and the remedy after the last colon.
func splitRefusal(err error) (seen, remedy string) {
	text := strings.TrimPrefix(err.Error(), ErrUnsupported.Error()+": ")
	if at := strings.LastIndex(text, ": "); at > 0 {
		return text[:at], text[at+2:]
	}
	return text, ""
}

// tryNames tries whether a second session is kept from a name that the first one holds.
func (c *checker) tryNames(ctx context.Context, second *client) error {
	name := fmt.Sprintf("sqllock.check.%x", uint64(randomKey()))
	first, err := getName(ctx, c.first, name)
	if err != nil {
		c.add(Finding{
			Severity: SeverityError, Topic: "exclusion", Seen: "the server refuses GET_LOCK: " + err.Error(),
			Why: "no lock can be taken here", Remedy: "use a server that has named locks",
		})
		return c.releaseName(ctx, c.first, name, false)
	}
	other, err := getName(ctx, second, name)
	if err == nil && first && other {
		c.add(notExclusive)
	}
	return errors.Join(err, c.releaseName(ctx, second, name, other), c.releaseName(ctx, c.first, name, first))
}

func getName(ctx context.Context, cl *client, name string) (bool, error) {
	var got sql.NullInt64
	err := cl.QueryRowContext(ctx, "SELECT GET_LOCK('"+name+"', 0)").Scan(&got)
	if err == nil && !got.Valid {
		err = errNull
	}
	return got.Int64 == 1, err
}

// releaseName gives a name up also when ctx has just ended.
func (c *checker) releaseName(ctx context.Context, cl *client, name string, held bool) error {
	if !held {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), poolerPatience)
	defer cancel()
	var ok sql.NullInt64
	err := cl.QueryRowContext(ctx, "SELECT RELEASE_LOCK('"+name+"')").Scan(&ok)
	if err == nil && ok.Int64 == 1 {
		return nil
	}
	_ = cl.Raw(func(any) error { return driver.ErrBadConn }) // the session's end releases it
	return joinIf(errors.New("the lock that check took was not released"), err)
}
