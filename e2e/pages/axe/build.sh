#!/usr/bin/env bash
# Fetches axe-core from the npm registry, in the version and with the hash of the lock file, into a cache folder and prints its script.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${HEADROOM_CACHE:-$here/../../../.cache}/axe
key=$(cat "$here/package-lock.json" "$here/build.sh" | sha256sum | cut -c1-16)
script=$cache/$key/node_modules/axe-core/axe.min.js

if [[ ! -e $script ]]; then
  command -v npm >/dev/null || { echo "build.sh: npm is needed to fetch axe-core" >&2; exit 1; }
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/.$key.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  cp "$here/package.json" "$here/package-lock.json" "$work/"
  (cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --silent) >&2
  # Another one may have been quicker.
  mv -T "$work" "$cache/$key" 2>/dev/null || [[ -e $script ]]
fi
echo "$script"
