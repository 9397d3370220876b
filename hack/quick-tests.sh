#!/usr/bin/env bash
# Prints what to tell `cargo test` for the tests that take no minutes: all but the end-to-end tests and those that simulate whole
# clusters. With --rest it prints the latter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo metadata --no-deps --format-version 1 --locked | python3 -c '
import json, sys
targets = [target for package in json.load(sys.stdin)["packages"] for target in package["targets"]]
names = {target["name"] for target in targets if "test" in target["kind"] and target["test"]}
simulations = {"faults", "forecast", "simulate"}
if not simulations <= names:
    sys.exit(f"quick-tests.sh: no tests are called {sorted(simulations - names)}")
rest = sys.argv[1:] == ["--rest"]
print(*([] if rest else ["--lib", "--bins"]), *(f"--test={name}" for name in sorted(simulations if rest else names - simulations)))
' "$@"
