#!/usr/bin/env bash
# Fails unless Cargo.toml, both charts and the changelog agree on the given version: hack/check-version.sh 0.1.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wanted=${1:?"the version to check for, such as 0.1.0"}
wrong=0
check() {
  local where=$1 found=$2
  if [[ $found != "$wanted" ]]; then
    echo "check-version.sh: $where says ${found:-nothing}, wanted $wanted" >&2
    wrong=1
  fi
}
check Cargo.toml "$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)"
for chart in charts/*/Chart.yaml; do
  check "version of $chart" "$(sed -n 's/^version: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' "$chart")"
  check "appVersion of $chart" "$(sed -n 's/^appVersion: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' "$chart")"
done
check CHANGELOG.md "$(sed -n "s/^## \[\{0,1\}\($wanted\).*/\1/p" CHANGELOG.md | head -1)"
exit "$wrong"
