#!/usr/bin/env bash
# Adds up the closing lines of all runs of cargo test and of Python's unittest in the given log, and as
# many failures besides as the second argument says, and
# prints one line.
set -euo pipefail
awk -v failed="${2:-0}" '
  /^test result: / {
    for (i = 2; i <= NF; i++) {
      if ($i ~ /^passed/) passed += $(i - 1)
      if ($i ~ /^failed/) failed += $(i - 1)
      if ($i ~ /^ignored/) ignored += $(i - 1)
    }
  }
  # "Ran 38 tests in 9.1s", and some lines later "OK (skipped=1)" or "FAILED (failures=1, errors=2)".
  /^Ran [0-9]+ tests? in / { ran = $2 }
  /^(OK|FAILED)( \(.*\))?$/ && ran != "" {
    bad = of("failures") + of("errors") + of("unexpected successes")
    passed += ran - bad - of("skipped")
    failed += bad
    ignored += of("skipped")
    ran = ""
  }
  function of(word) { return match($0, word "=[0-9]+") ? substr($0, RSTART + length(word) + 1, RLENGTH - length(word) - 1) + 0 : 0 }
  END { printf "%d passed, %d failed, %d skipped\n", passed, failed, ignored }
' "$1"
