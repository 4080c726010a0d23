package jobs

import (
	"strconv"
	"strings"
)

// The columns beside the key. Everything has a default, so that an INSERT of the key alone is a claim.
const (
	postgresColumns = "status varchar(10) NOT NULL DEFAULT 'claimed'; attempt integer NOT NULL DEFAULT 0; token bigint;" +
		" host varchar(255) NOT NULL DEFAULT ''; started timestamptz(6); finished timestamptz(6); error varchar(1000) NOT NULL DEFAULT ''"
	mysqlColumns = "status VARCHAR(10) NOT NULL DEFAULT 'claimed'; attempt INTEGER NOT NULL DEFAULT 0; token BIGINT;" +
		" host VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT ''; started DATETIME(6); finished DATETIME(6);" +
		" error VARCHAR(1000) CHARACTER SET utf8mb4 NOT NULL DEFAULT ''"
)

func (t *table) more() []string {
	if t.postgres {
		return strings.Split(postgresColumns, "; ")
	}
	return strings.Split(mysqlColumns, "; ")
}

// create: a job's name is told apart by each character, and a slot by each microsecond. The second key makes sure that no
// token is given twice.
func (t *table) create() []string {
	key := "job varchar(100) NOT NULL, slot timestamptz(6) NOT NULL, "
	if !t.postgres {
		key = "job VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, slot DATETIME(6) NOT NULL, "
	}
	return []string{"CREATE TABLE " + t.name + " (" + key + strings.Join(t.more(), ", ") + ", PRIMARY KEY (job, slot), UNIQUE (job, token))"}
}

// extend adds to the two-column table what it lacks. Its slot is the exact one of the run that has the date.
func (t *table) extend() []string {
	slot := "slot DATETIME(6)"
	if t.postgres {
		slot = "slot timestamptz(6)"
	}
	add := append([]string{slot}, t.more()...)
	return []string{"ALTER TABLE " + t.name + " ADD COLUMN " + strings.Join(add, ", ADD COLUMN ") + ", ADD UNIQUE (job_name, token)"}
}

// The statements, in a spelling that sql completes: {t} the table, {job} and {at} the columns of its key,
// {?at} the slot as the key has it, {?exact} the exact slot, {?job} {?int} {?text} parameters whose type nothing else tells.
const (
	// lookSQL always answers one row: what the slot has, and the job's latest token.
	lookSQL = "SELECT r.status, r.attempt, r.token, r.host, {text r.started}, {text r.slot}, {age r.finished}," +
		" COALESCE((SELECT MAX(m.token) FROM {t} m WHERE m.{job} = ?), 0)" +
		" FROM (SELECT 1 AS one) o LEFT JOIN {t} r ON r.{job} = ? AND r.{at} = {?at}"

	// The latest token must still be what it was when the slot was looked at: then, nobody has begun since.
	latestSQL = "(SELECT COALESCE(MAX(token), 0) AS latest FROM {t} WHERE {job} = ?) c"

	beginSQL = "INSERT INTO {t} ({job}, {at}, status, attempt, token, host, started)" +
		" SELECT {?job}, {?at}, 'running', 1, {?int}, {?text}, {now} FROM " + latestSQL + " WHERE c.latest = ?"
	beginDatedSQL = "INSERT INTO {t} ({job}, {at}, slot, status, attempt, token, host, started)" +
		" SELECT {?job}, {?at}, {?exact}, 'running', 1, {?int}, {?text}, {now} FROM " + latestSQL + " WHERE c.latest = ?"
	againSQL = "UPDATE {t} SET status = 'running', attempt = ?, token = ?, host = ?, started = {now}, finished = NULL, error = ?" +
		" WHERE {job} = ? AND {at} = {?at} AND status = ? AND attempt = ? AND token = ? AND ? = (SELECT c.latest FROM " + latestSQL + ")"

	// Only the run that has the row may say what became of it.
	succeedSQL = "UPDATE {t} SET status = 'succeeded', finished = {now} WHERE {job} = ? AND {at} = {?at} AND status = 'running' AND token = ?"
	failSQL    = "UPDATE {t} SET status = 'failed', finished = {now}, error = ? WHERE {job} = ? AND {at} = {?at} AND status = 'running' AND token = ?"

	claimSQL      = "INSERT INTO {t} ({job}, {at}, status, host, started) SELECT {?job}, {?at}, 'claimed', {?text}, {now}"
	claimDatedSQL = "INSERT INTO {t} ({job}, {at}, slot, status, host, started) SELECT {?job}, {?at}, {?exact}, 'claimed', {?text}, {now}"
	claimBareSQL  = "INSERT INTO {t} ({job}, {at}) SELECT {?job}, {?at}"
	takenSQL      = "SELECT COUNT(*) FROM {t} WHERE {job} = ? AND {at} = {?at}"

	behindSQL = "SELECT {text {at}}, {text slot} FROM {t} WHERE {job} = ? AND (status = 'running' OR status = 'failed' AND attempt < ?) ORDER BY {at}"
	runsSQL   = "SELECT {job}, {text {at}}, {text slot}, status, attempt, COALESCE(token, 0), host, {text started}, {text finished}, error FROM {t}" +
		" WHERE (? = '' OR {job} = ?) ORDER BY {at} DESC, {job} LIMIT "
	// The row of the latest token stays: it is the counter.
	pruneSQL = "DELETE FROM {t} WHERE {job} = ? AND {at} < {ago} AND status <> 'running' AND (token IS NULL OR token < (SELECT c.latest FROM " + latestSQL + "))"
)

// sql completes a statement for the server.
func (t *table) sql(s string) string {
	words := []string{"{t}", t.name, "{?job}", "?", "{?int}", "?", "{?text}", "?", "{?at}", "?", "{?exact}", "?"}
	if t.postgres {
		at := "CAST(CAST(? AS text) || '+00' AS timestamptz)"
		words = []string{"{t}", t.name, "{?job}", "CAST(? AS varchar)", "{?int}", "CAST(? AS bigint)", "{?text}", "CAST(? AS varchar)", "{?exact}", at}
		if t.dated {
			at = "CAST(CAST(? AS text) AS date)"
		}
		words = append(words, "{?at}", at)
	}
	if t.dated {
		words = append(words, "{text {at}}", t.dateText("run_date"), "{job}", "job_name", "{at}", "run_date")
	} else {
		words = append(words, "{text {at}}", t.text("slot"), "{job}", "job", "{at}", "slot")
	}
	return t.number(strings.NewReplacer(append(words, t.times()...)...).Replace(s))
}

// times are the words about the server's clock, and about times as text in UTC.
func (t *table) times() (words []string) {
	for _, column := range []string{"r.started", "r.slot", "slot", "started", "finished"} {
		words = append(words, "{text "+column+"}", t.text(column))
	}
	if t.postgres {
		return append(words, "{now}", "clock_timestamp()",
			"{age r.finished}", "CAST(EXTRACT(EPOCH FROM clock_timestamp() - r.finished) * 1000000 AS bigint)",
			"{ago}", "clock_timestamp() - make_interval(secs => ?)")
	}
	return append(words, "{now}", "UTC_TIMESTAMP(6)",
		"{age r.finished}", "TIMESTAMPDIFF(MICROSECOND, r.finished, UTC_TIMESTAMP(6))",
		"{ago}", "UTC_TIMESTAMP(6) - INTERVAL ? SECOND")
}

func (t *table) text(column string) string {
	if t.postgres {
		return "to_char(" + column + " AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
	}
	return "DATE_FORMAT(" + column + ", '%Y-%m-%d %H:%i:%s.%f')"
}

func (t *table) dateText(column string) string {
	if t.postgres {
		return "to_char(" + column + ", 'YYYY-MM-DD')"
	}
	return "DATE_FORMAT(" + column + ", '%Y-%m-%d')"
}

// number gives PostgreSQL's parameters their numbers.
func (t *table) number(s string) string {
	if !t.postgres {
		return s
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(s, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}
