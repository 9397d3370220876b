#!/usr/bin/env bash
# Runs the end-to-end tests on each version of Kubernetes in e2e/control-plane, one after the other, and upgrades a cluster from each to
# the next. Tests of what a version does not have yet are left out, by e2e/since. Ends with a table.
#
#   hack/test-matrix.sh [FILTER…]              the tests whose names contain one of these (default: all)
#   HEADROOM_VERSIONS="1.35 1.37"              some versions only
#   HEADROOM_TESTS_AT_ONCE=N                   tests at a time (default: 3)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

features=(--workspace --features headroom/failpoints --locked)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
versions=${HEADROOM_VERSIONS:-$(cd e2e/control-plane && printf '%s\n' kubernetes-* | sed 's/kubernetes-//')}
export HEADROOM_BIN=$target/debug/headroom

cargo build "${features[@]}" --bins && cargo test "${features[@]}" --test end_to_end --no-run || exit
table= failed=0

# newer_than VERSION: what the names of tests begin with that need a newer version.
newer_than() {
  sed 's/ *#.*//; /^$/d' e2e/since | while read -r test since; do
    [[ $since == "$1" || $(printf '%s\n' "$since" "$1" | sort -V | head -1) == "$since" ]] || echo "$test"
  done
}

# run NAME VERSION ARG…: the tests of the arguments on one version, and a row of the table.
run() {
  local name=$1 version=$2 log="$target/matrix-${1// /-}.log" newer
  shift 2
  mapfile -t newer < <(newer_than "$version")
  echo "=== Kubernetes $name"
  HEADROOM_KUBERNETES=$version cargo test "${features[@]}" --test end_to_end -- \
    --test-threads="${HEADROOM_TESTS_AT_ONCE:-3}" "${newer[@]/#/--skip=}" "$@" 2>&1 | tee "$log" || failed=1
  table+=$(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored.*/| '"$name"' | \1 | \2 | \3 | '"${#newer[@]}"' |/p' "$log")$'\n'
}

previous=
for version in $versions; do
  run "$version" "$version" "$@"
  if [[ -n $previous ]]; then
    HEADROOM_UPGRADE_FROM=$previous run "$previous to $version" "$version" --ignored cluster_is_upgraded
  fi
  previous=$version
done
printf '\n| Kubernetes | passed | failed | ignored | needs a newer one |\n| --- | ---: | ---: | ---: | ---: |\n%s' "$table"
exit "$failed"
