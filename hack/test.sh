#!/usr/bin/env bash
# Runs the tests, goes on after a failure, and ends with the real counts.
#
#   hack/test.sh          the tests that need a control plane and no other program built, and take no minutes
#   hack/test.sh --all    every test and check there is: also the end-to-end tests of e2e/long-tests, lints, licences, pages in a browser
#
# One set of features for all of it, so that cargo builds everything once; and the operator that
# the end-to-end tests start is the one built here.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

features=(--workspace --features headroom/failpoints --locked)
target="${CARGO_TARGET_DIR:-target}"
all=${1:-}
log=$(mktemp)
failed=()
# Steps that failed without a test that says so, such as a lint or a build: each counts as one.
failures_beside_tests=0

step() {
  local name=$1 start=$SECONDS
  shift
  echo "=== $name"
  if "$@" 2>&1 | tee "$log.step"; then
    echo "=== $name: ok, $((SECONDS - start)) s"
  else
    echo "=== $name: FAILED, $((SECONDS - start)) s"
    failed+=("$name")
    grep -q -e '^test result: FAILED' -e '^FAILED (.*\(failures\|errors\)=' "$log.step" || failures_beside_tests=$((failures_beside_tests + 1))
  fi
  cat "$log.step" >>"$log"
}

# The control plane and the tools need minutes when the cache is cold, and nobody needs them before the end-to-end tests.
counterparts=(control-plane)
[[ $all != --all ]] || counterparts+=(gitops externalgrpc externalscaler nats redis rollouts clusterapi kueue karpenter registry krew prometheus collector)
for counterpart in "${counterparts[@]}"; do
  nice -n 10 "e2e/$counterpart/build.sh" || exit
done >"$log.control-plane" 2>&1 &
control_plane=$!
simulations= lints=
trap 'kill "$control_plane" $simulations $lints 2>/dev/null; rm -f "$log" "$log.step" "$log.control-plane" "$log.permissions" "$log.simulations" "$log.lints"' EXIT

control_plane_is_built() {
  cat "$log.control-plane"
  return "$built"
}

simulations_hold() {
  cat "$log.simulations"
  return "$held"
}

lints_are_clean() {
  cat "$log.lints"
  return "$clean"
}

# end_to_end N FILTER…: end-to-end tests, N at a time: they mostly wait, and two cores carry four control planes, or three with other
# programs beside them. What fails has failed: nothing is run again.
end_to_end() {
  cargo test "${features[@]}" --test end_to_end -- --test-threads="${HEADROOM_TESTS_AT_ONCE:-$1}" "${@:2}"
}

compiled() {
  cargo test "${features[@]}" --tests --test end_to_end --no-run && cargo build "${features[@]}" --bins
}

# Names of end-to-end tests, or what they begin with.
mapfile -t long < <(sed 's/ *#.*//; /^$/d' e2e/long-tests)

# A random world takes ten seconds of a processor. CI runs more of them, and `make soak` thousands.
if [[ $all == --all ]]; then worlds=20; else worlds=10; fi
export HEADROOM_SEEDS=${HEADROOM_SEEDS:-$worlds}
[[ $all != --all ]] || step "dependencies" make --no-print-directory deny
# Not the examples: they measure, and lints compile them.
step "compile" compiled
read -ra quick < <(hack/quick-tests.sh)
read -ra rest < <(hack/quick-tests.sh --rest)
step "unit, golden and property tests" cargo test "${features[@]}" --no-fail-fast "${quick[@]}"
# Nobody waits for these: they get what the rest of the control plane's build and the end-to-end tests leave.
nice -n 19 cargo test "${features[@]}" --no-fail-fast "${rest[@]}" >"$log.simulations" 2>&1 &
simulations=$!
step "tests in documentation" cargo test "${features[@]}" --no-fail-fast --doc
step "AWS simulator" e2e/aws/test.sh
step "tests of the program behind soak-mutants" cargo test --manifest-path hack/mutants/Cargo.toml --target-dir "$target/soak/mutants/tool" --locked
wait "$control_plane"
built=$?
step "control plane and tools" control_plane_is_built
HEADROOM_BIN="$(cd "$target" && pwd)/debug/headroom"
export HEADROOM_BIN
if [[ $all == --all ]]; then
  # What the operator does in all end-to-end tests together, to find permissions that nothing needs.
  export HEADROOM_USED_PERMISSIONS="$log.permissions"
  step "pages in a browser" e2e/pages/test.sh
  step "templates for AWS" e2e/awstemplates/test.sh
  # Nobody waits for these either. They share nothing with the builds above and have a folder of their own, so that neither waits for
  # the other's lock.
  CARGO_TARGET_DIR="$target/lints" nice -n 19 make --no-print-directory lint >"$log.lints" 2>&1 &
  lints=$!
fi
step "end-to-end tests on a real control plane" end_to_end 4 "${long[@]/#/--skip=}"
if [[ $all == --all ]]; then
  step "long end-to-end tests" end_to_end 3 "${long[@]}"
  wait "$lints"
  clean=$?
  step "formatting and lints" lints_are_clean
  step "no permission without a use" "$target/debug/unused_permissions" "$HEADROOM_USED_PERMISSIONS"
fi
wait "$simulations"
held=$?
step "simulations and random worlds" simulations_hold

if (( ${#failed[@]} )); then
  printf 'FAILED: %s\n' "${failed[@]}"
fi
summary=$(hack/sum-tests.sh "$log" "$failures_beside_tests")
echo "$summary"
[[ ${#failed[@]} -eq 0 && $summary == *" 0 failed,"* && $summary != "0 passed"* ]]
