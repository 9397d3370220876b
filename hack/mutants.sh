#!/usr/bin/env bash
# Puts small mutations into core's decision modules, one at a time, and reports which of them no test of core sees and
# docs/development/mutants.md does not list. cargo-mutants, which is installed into the cache when it is missing, says which mutants there
# are; hack/mutants compiles all of them into one build, each behind a switch. What is tried is the repository's last commit, in
# copies of it; the page is read as it stands.
#
#   hack/mutants.sh [PART]        PART: every K-th mutant, beginning with the N-th: N/K (default 0/1, all); or
#                                 a piece of paths: the mutants of those files
#   HEADROOM_MUTANTS=DIR          where copies, build and results are (default: target/soak/mutants). Results are kept for each
#                                 commit, and what was tried is not tried again; removing DIR/results begins anew
#   HEADROOM_MUTANTS_JOBS=N       how many tests run at a time (default: as many as there are cores)
#
# Ends with 1 if no test sees a mutant that is not listed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
part=${1:-0/1}
work=$(realpath -m "${HEADROOM_MUTANTS:-target/soak/mutants}")

version=27.1.0
tools="${HEADROOM_CACHE:-$PWD/.cache}/tools"
if [[ "$("$tools/bin/cargo-mutants" mutants --version 2>/dev/null)" != "cargo-mutants $version" ]]; then
  # Its own target folder and no optimization: quick to build, and nothing of ours is rebuilt.
  env -u CARGO_TARGET_DIR cargo install --quiet --locked --debug cargo-mutants --version "$version" --root "$tools"
fi
mkdir -p "$work"
CARGO_TARGET_DIR="$work/tool" cargo build --quiet --locked --manifest-path hack/mutants/Cargo.toml

commit=$(git rev-parse HEAD)
if [[ "$(git -C "$work/written" rev-parse HEAD 2>/dev/null)" != "$commit" ]]; then
  rm -rf "$work/written" "$work/switched"
fi
for copy in written switched; do
  [[ -d $work/$copy ]] || git clone --quiet . "$work/$copy"
done

exec "$work/tool/debug/mutants" --part "$part" --cargo-mutants "$tools/bin/cargo-mutants" --written "$work/written" \
  --switched "$work/switched" --target "$work/target" --results "$work/results/$commit" --known docs/development/mutants.md \
  --jobs "${HEADROOM_MUTANTS_JOBS:-0}"
