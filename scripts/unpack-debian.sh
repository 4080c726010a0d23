#!/bin/bash
# unpack-debian.sh FOLDER SUITE PACKAGE...: servers of another Debian suite than the system's.
# They are unpacked to FOLDER/root with all the libraries that they need, libc included, and never installed: the system
# stays as it is. Done once; after that it only looks.
set -euo pipefail
folder=$1 suite=$2
packages=("${@:3}")
root=$folder/root half=$folder/half

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9 # two at once would unpack into each other
[ ! -d "$root" ] || exit 0

mirror() { # the mirror that this machine's own apt uses
  { cat /etc/apt/sources.list.d/*.sources | awk '/^URIs:/ {print $2}'
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list | awk '/^deb / {for (i = 2; i <= NF; i++) if ($i ~ /^http/) print $i}'
  } 2>/dev/null | grep -m 1 '/debian/\?$'
}
from=$(mirror || true)
if [ -z "$from" ]; then
  echo "unpack-debian.sh needs a Debian mirror in apt's sources. Install ${packages[*]} of Debian $suite by hand." >&2
  exit 1
fi

apt=$folder/apt
rm -rf "$apt" "$half"
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$half"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from $suite main" >"$apt/sources.list"
# An empty package database makes apt plan every library. Perl counts as installed: only unused tools want it.
cat >"$apt/status" <<STATUS
Package: perl
Status: install ok installed
Architecture: $(dpkg --print-architecture)
Multi-Arch: allowed
Version: 9999
Maintainer: nobody
Description: not needed

STATUS
options=(-qq -y -oDir::Etc::sourcelist="$apt/sources.list" -oDir::Etc::sourceparts=/dev/null -oDir::State::Lists="$apt/lists"
  -oDir::State::status="$apt/status" -oDir::State::extended_states="$apt/extended" -oDir::Cache::archives="$apt/archives"
  -oDir::Cache::pkgcache= -oDir::Cache::srcpkgcache= -oAPT::Sandbox::User=root -oAcquire::Languages=none
  -oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -oAcquire::Retries=3 -oDebug::NoLocking=1)
apt-get "${options[@]}" update
apt-get "${options[@]}" --no-install-recommends --download-only install "${packages[@]}" >/dev/null
for archive in "$apt"/archives/*.deb; do dpkg-deb -x "$archive" "$half"; done
rm -rf "$apt" "$half"/usr/share/{doc,man,locale,lintian,gcc,gdb,bug} "$half"/usr/lib/*/gconv

# Each program becomes a script that runs it by its own loader, with its own libraries.
loader=$(cd "$half" && echo usr/lib/*-linux-gnu/ld-linux-*.so.*)
find "$half"/usr/bin "$half"/usr/sbin -type f -perm -1 | while read -r program; do
  [ "$(head -c 4 "$program" | tail -c 3)" = ELF ] || continue
  mv "$program" "$program.elf"
  cat >"$program" <<SCRIPT
#!/bin/sh
exec $root/$loader --library-path $root/${loader%/*} $root/${program#"$half"/}.elf "\$@"
SCRIPT
  chmod +x "$program"
done
mv "$half" "$root" # whoever sees it sees all of it
