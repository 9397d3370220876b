#!/usr/bin/env bash
# Checks licences, sources, duplicate versions and known holes of all dependencies with cargo-deny.
# Installs cargo-deny into the cache when it is missing (a minute). Findings fail; an advisory
# database that cannot be fetched is said loudly and does not, but with HEADROOM_ADVISORIES=required.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=0.20.2
tools="${HEADROOM_CACHE:-$PWD/.cache}/tools"
deny="$tools/bin/cargo-deny"

if [[ "$("$deny" --version 2>/dev/null)" != "cargo-deny $version" ]]; then
  # Its own target folder and no optimization: quick to build, and nothing of ours is rebuilt.
  env -u CARGO_TARGET_DIR cargo install --quiet --locked --debug cargo-deny --version "$version" --root "$tools"
fi

check() { "$deny" --workspace --locked --log-level error check --hide-inclusion-graph "$@"; }

check bans licenses sources
# The program behind `make soak-mutants` has a lock file of its own, and needs fewer of the licences.
"$deny" --manifest-path hack/mutants/Cargo.toml --locked --log-level error check --hide-inclusion-graph \
  --allow license-not-encountered bans licenses sources

export GIT_TERMINAL_PROMPT=0
if findings=$(timeout 120 "$deny" --workspace --locked --log-level error check --hide-inclusion-graph advisories 2>&1); then
  echo "$findings"
elif grep -q "advisory database" <<<"$findings" && [[ ${HEADROOM_ADVISORIES:-} != required ]]; then
  # Known already, if an earlier run could fetch it?
  if ls "${CARGO_HOME:-$HOME/.cargo}"/advisory-dbs/*/.git >/dev/null 2>&1; then
    check --disable-fetch advisories
    echo "WARNING: advisories were checked against an old copy of the database: it could not be fetched anew"
  else
    echo "WARNING: advisories were NOT checked: the database could not be fetched"
  fi
else
  echo "$findings"
  exit 1
fi
