#!/bin/bash
# servers.sh: brings the server programs that the tests and benchmarks run: PostgreSQL, MariaDB, MySQL, PgBouncer, Redis.
# It installs what is missing and starts nothing; when all is there it only looks. Tests start private copies themselves.
set -euo pipefail
here=$(dirname "$0")
cache=${SQLLOCK_CACHE:-${XDG_CACHE_HOME:-${HOME:-${TMPDIR:-/tmp}}/.cache}/sqllock}

has() { # has PROGRAM [FOLDER PATTERN]...: is it in PATH or in one of the folders?
  local program=$1 folder; shift
  command -v "$program" >/dev/null && return
  for folder in "$@"; do compgen -G "$folder/$program" >/dev/null && return; done
  return 1
}

packages=() services=()
has postgres '/usr/lib/postgresql/*/bin' || { packages+=(postgresql); services+=(postgresql); }
has mariadbd /usr/sbin && has mariadb-install-db || packages+=(mariadb-server-core mariadb-client-core)
has pgbouncer /usr/sbin || { packages+=(pgbouncer); services+=(pgbouncer); }
has redis-server || { packages+=(redis-server); services+=(redis-server); }

real_mysql() { # on Debian, mysqld is MariaDB's
  has mysqld /usr/sbin && [[ $(PATH=$PATH:/usr/sbin mysqld --version) != *MariaDB* ]]
}

if [ ${#packages[@]} -gt 0 ]; then
  install=(apt-get install -y -qq --no-install-recommends "${packages[@]}")
  if ! command -v apt-get >/dev/null; then
    echo "servers.sh knows Debian only. Install PostgreSQL, MariaDB, MySQL, PgBouncer and Redis with your system's" \
      "package manager so that postgres, mariadbd, mysqld, pgbouncer and redis-server are in PATH, or set" \
      "SQLLOCK_POSTGRES_DSN, SQLLOCK_MARIADB_DSN and SQLLOCK_MYSQL_DSN. Missing here: ${packages[*]}" >&2
    exit 1
  fi
  if [ "$(id -u)" != 0 ]; then
    echo "missing: ${packages[*]}. As root: ${install[*]}" >&2
    exit 1
  fi
  # Debian starts the services that it installs unless a policy forbids it.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || echo "apt-get update failed: going on with the lists at hand" >&2
  echo "installing ${packages[*]}"
  "${install[@]}" </dev/null >/dev/null
  for service in "${services[@]}"; do # nor at the next boot
    ! command -v systemctl >/dev/null || systemctl disable --quiet "$service" 2>/dev/null || true
  done
fi

real_mysql || "$here/unpack-debian.sh" "$cache/debian/mysql" sid mysql-server-core # stable releases have none
echo "PostgreSQL, MariaDB, MySQL, PgBouncer and Redis are there."
