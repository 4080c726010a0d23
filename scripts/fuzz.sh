#!/bin/bash
# fuzz.sh TIME: runs every fuzz target of this module for TIME each (e.g. 10s), one after the other.
set -euo pipefail
time=$1
targets=$(go test -list '^Fuzz' ./... | awk '/^Fuzz/ {names[n++] = $1} /^ok/ {for (i = 0; i < n; i++) print names[i], $2; n = 0}')
while read -r name package; do
  [ -z "$name" ] || go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$package" </dev/null
done <<<"$targets"
