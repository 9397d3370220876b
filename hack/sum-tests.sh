#!/usr/bin/env bash
# Adds up the closing lines of all cargo test runs in the given log, and as many failures besides
# as the second argument says, and prints one line.
set -euo pipefail
awk -v failed="${2:-0}" '
  /^test result: / {
    for (i = 2; i <= NF; i++) {
      if ($i ~ /^passed/) passed += $(i - 1)
      if ($i ~ /^failed/) failed += $(i - 1)
      if ($i ~ /^ignored/) ignored += $(i - 1)
    }
  }
  END { printf "%d passed, %d failed, %d skipped\n", passed, failed, ignored }
' "$1"
