#!/bin/sh
# Plants one bug after another in a copy of the library and says whether the torture run catches it, and what the suite's
# own tests say: an attack that cannot fail proves nothing. Usage: scripts/plant.sh [length [server [name]]]
# It ends with status 1 if a bug was missed by both.
set -eu
cd "$(dirname "$0")/.."
length=${1:-15s} server=${2:-PostgreSQL} chosen=${3:-}
case $server in PostgreSQL | MySQL | MariaDB) ;; *) echo "plant.sh: the server is PostgreSQL, MySQL or MariaDB, not $server" >&2 && exit 2 ;; esac
missed=0 planted=0
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

# plant NAME FILE SED-EXPRESSION [PACKAGE TESTS]: the expression must change the file, and the copy must still build.
plant() {
  [ -z "$chosen" ] || [ "$chosen" = "$1" ] || return 0
  rm -rf "$copy/tree" && mkdir "$copy/tree" && git archive HEAD | tar -x -C "$copy/tree"
  sed -i "$3" "$copy/tree/$2"
  if git show "HEAD:$2" | cmp -s - "$copy/tree/$2"; then
    echo "$1: the bug does not fit into $2" && exit 1
  fi
  (cd "$copy/tree" && go build ./...)
  planted=$((planted + 1)) caught=0
  torture "$1"
  [ -z "${4:-}" ] || suite "$1" "$4" "$5"
  [ "$caught" = 1 ] || missed=1
}

torture() {
  if (cd "$copy/tree" && go test ./internal/torture -count=1 -v -run TestTorture "-torture.length=$length" "-torture.server=$server") >"$copy/log" 2>&1; then
    echo "$1: torture: MISSED ($(grep -om1 'seed [0-9]*' "$copy/log"))"
  else
    caught=1
    echo "$1: torture: caught ($(grep -om1 'seed [0-9]*' "$copy/log")): $(grep -m1 -oE '(key .* two holders|left over:  .*|still held after|slot .* succeeded [0-9]+ times|slot .* is .* in the ledger|one token for two|no .* has worked .* tries|has done nothing|the fence refused)' "$copy/log" || tail -n 3 "$copy/log")"
  fi
}

suite() { # suite NAME PACKAGE TESTS
  if (cd "$copy/tree" && go test "$2" -count=1 -run "$3") >"$copy/log" 2>&1; then
    echo "$1: suite: MISSED by $3"
  else
    caught=1
    echo "$1: suite: caught by $(grep -m1 -oE -- '--- FAIL: [^ ]+' "$copy/log" || tail -n 3 "$copy/log")"
  fi
}

# The release never reaches the session.
plant release turn.go 's/^\terr := g.pin.ask(context.Background(), opRelease, g)$/\tvar err error/'
# Goroutines of one process do not keep each other out.
plant turn turn.go 's/^\tt, w, held := l.join(g, op)$/\treturn false, nil\n&/'
# A refusal in a batch counts as a grant.
plant batch pgbatch.go "s/^\t\tcase '0':\$/\t\tcase '0':\n\t\t\tif r.op == opTry {\n\t\t\t\tr.said = saidYes\n\t\t\t\tcontinue\n\t\t\t}/"
# The session's end is noticed, and its holders are not told.
plant loss pin_watch.go 's/^\t\tg.lose(p.err)$/\t\t_ = g/'
# The holder waits for an answer for longer than the server keeps its lock.
plant silence lockeroption.go 's/^\tc.timeout = min(maxTimeout, .*$/\tc.timeout = maxTimeout/' . TestSilentNetworkWhileHeld
# The ledger runs a slot that has succeeded.
plant ledger jobs/once.go 's/^\tcase seen.status == StatusSucceeded || seen.status == StatusClaimed:$/\tcase seen.status == StatusClaimed:/'
# Two runs of a job get one token.
plant token jobs/once.go 's/Token: seen.top + 1/Token: seen.top/'
# Whoever takes a slot over gets the token of the run that was cut off.
plant takeover jobs/rows.go "s/^\tok, err := t.change(ctx, db, .UPDATE {table} SET status = 'running'/\trun.Token = seen.token\n&/"
# A slot is taken over whatever has become of it since it was looked at.
plant unconditional jobs/rows.go "s/ AND status = ? AND attempt = ?//; s/run.key, seen.status, seen.attempt)/run.key)/" ./jobs TestManyJobs
# The server's answer to the probe is ignored.
plant probe leakguard.go 's/^\tc.table.adopt(found)$/\t_ = found\n\tc.table.adopt(nil)/'
# A connection that holds a lock is kept.
plant guard leakguard.go 's/^\tcase len(holds) == 0:$/\tcase true:/'
# A new leader does not wait until the one before must know.
plant stepup jobs/lead.go 's/^\terr := sleep(ctx, c.cfg.delay)$/\terr := sleep(ctx, 0)/' ./jobs TestLeadAfterAKilledSession

[ "$planted" != 0 ] || { echo "plant.sh: there is no bug named $chosen" >&2 && exit 2; }
exit "$missed"
