#!/usr/bin/env bash
# Measures what a newcomer and a developer wait for, from a fresh clone with the registry's cache filled, and prints a table.
#
#   hack/build-times.sh            first command, check, edit and check, edit and simulate
#   hack/build-times.sh image      the image's build too, which takes long
#
# Run it on an otherwise idle machine. It clones HEAD into a temporary folder and removes it.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --no-hardlinks "$repo" "$work/headroom"
cd "$work/headroom"
unset CARGO_TARGET_DIR
cargo fetch --quiet --locked

row() {
  local name=$1
  shift
  local before=$SECONDS
  "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; echo "build-times.sh: $name failed" >&2; exit 1; }
  printf '| %s | %d |\n' "$name" $((SECONDS - before))
}

edit() { printf '\n// Edited by build-times.sh.\n' >>src/operator/src/controllers/nodes/mod.rs; }

echo "$(nproc) cores, $(rustc --version), $(git rev-parse --short HEAD)"
echo '| what | seconds |'
echo '| --- | ---: |'
row 'fresh clone to the end of the first command' cargo run --quiet --locked -- simulate examples/rush-hour
edit
row 'edit in the controllers to `simulate`' cargo run --quiet --locked -- simulate examples/rush-hour
row 'first `cargo check`' cargo check --quiet --locked
edit
row '`cargo check` after an edit in the controllers' cargo check --quiet --locked
if [[ ${1:-} == image ]]; then
  row 'build of the image profile' cargo build --quiet --locked --profile image
fi
