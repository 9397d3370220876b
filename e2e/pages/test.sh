#!/usr/bin/env bash
# Tests the pages in a real browser: the report of a simulation. It needs no cluster, but Chromium, which it installs from
# Debian where it may, npm, which fetches axe-core once, and Python 3.10 with nothing beside it. HEADROOM_BIN names the
# program (default: the debug build).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python="${PYTHON:-python3}"

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
  echo "test.sh: Python 3.10 or newer is needed; \`$python\` is none. Install it, or name another one in PYTHON." >&2
  exit 1
fi

export HEADROOM_BIN="${HEADROOM_BIN:-$(cd ../.. && pwd)/target/debug/headroom}"
if [[ ! -x "$HEADROOM_BIN" ]]; then
  echo "test.sh: there is no program at $HEADROOM_BIN: run \`cargo build\` first, or name it in HEADROOM_BIN." >&2
  exit 1
fi

# Without a browser or axe-core, and without a way to get them, the tests that need them count as skipped, and say so.
CHROMIUM=$(./chromium.sh) || CHROMIUM=
AXE_CORE=$(axe/build.sh) || AXE_CORE=
export CHROMIUM AXE_CORE PYTHONDONTWRITEBYTECODE=1
exec "$python" -m unittest "${@:-test_report}"
