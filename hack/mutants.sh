#!/usr/bin/env bash
# Puts small mistakes into core's decision modules, one at a time (cargo-mutants), and tells which of them no test of core
# sees. Installs cargo-mutants into the cache when it is missing. Works in a copy of the repository's last commit.
#
#   hack/mutants.sh [SHARD]       SHARD: every K-th mistake, beginning with the N-th: N/K (default 0/1, all)
#   HEADROOM_MUTANTS=DIR          where the copy and the results are (default: target/soak/mutants); with all mistakes,
#                                 what was caught before on the same commit is not tried again
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shard=${1:-0/1}
work=$(realpath -m "${HEADROOM_MUTANTS:-target/soak/mutants}")

version=27.1.0
tools="${HEADROOM_CACHE:-$PWD/.cache}/tools"
if [[ "$("$tools/bin/cargo-mutants" mutants --version 2>/dev/null)" != "cargo-mutants $version" ]]; then
  # Its own target folder and no optimization: quick to build, and nothing of ours is rebuilt.
  env -u CARGO_TARGET_DIR cargo install --quiet --locked --debug cargo-mutants --version "$version" --root "$tools"
fi

mkdir -p "$work"
if [[ "$(git -C "$work/tree" rev-parse HEAD 2>/dev/null)" != "$(git rev-parse HEAD)" ]]; then
  rm -rf "$work/tree" "$work/${shard/\//-of-}"
  git clone --quiet . "$work/tree"
fi
git -C "$work/tree" checkout --quiet -- .
cd "$work/tree"

# Runs cargo-mutants into a folder; what follows the folder goes to it, and what follows -- to the tests.
mutants() {
  local out=$1 chosen=()
  shift
  while [[ $# -gt 0 && $1 != -- ]]; do
    chosen+=("$1")
    shift
  done
  shift
  "$tools/bin/cargo-mutants" mutants --in-place --package headroom-core --file 'src/core/src/nodes/**' \
    --file 'src/core/src/pods/**' --no-shuffle --profile mutants --baseline skip --timeout 300 --build-timeout 900 \
    --output "$out" --colors never "${chosen[@]}" --cargo-test-arg=--lib --cargo-test-arg=--test --cargo-test-arg=core \
    --cargo-test-arg=--test --cargo-test-arg=conformance "${@/#/--cargo-test-arg=}" || [[ $? == [23] ]]
}

# Two suites take as long as all others together and see little that these do not: they are asked last.
out=$work/${shard/\//-of-}
mkdir -p "$out"
# What was caught before is left out before the mistakes are shared out: with parts, each would then get others.
[[ $shard == 0/1 ]] && again=(--iterate) || again=()
mutants "$out/quick" --shard "$shard" --sharding round-robin "${again[@]}" -- -- --skip removal_loop --skip replay
mapfile -t missed < <(sed 's/[][\.*^$+?(){}|]/\\&/g; s/^/--re=^/; s/$/$/' "$out/quick/mutants.out/missed.txt")
if (( ${#missed[@]} )); then
  mutants "$out/all" "${missed[@]}" -- -- removal_loop replay
fi
echo "$(wc -l <"$out/quick/mutants.out/caught.txt") caught by the quick suites, ${#missed[@]} not; of these missed by all:"
[[ ! -e $out/all/mutants.out/missed.txt ]] || cat "$out/all/mutants.out/missed.txt"
