#!/usr/bin/env bash
# Prints the path of a Chromium, and installs Debian's where there is none and it may: as root, with apt.
set -euo pipefail

find_one() {
  local name
  for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome chrome; do
    if [[ -n "$name" ]] && command -v "$name"; then return 0; fi
  done
  return 1
}

if find_one; then exit 0; fi
if [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
  echo "chromium.sh: installing Chromium" >&2
  {
    apt-get update --quiet=2
    DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends chromium fonts-dejavu-core
  } >&2 || true
  if find_one; then exit 0; fi
fi
echo "chromium.sh: no Chromium was found and none could be installed. Install one (Debian: \`apt-get install chromium\`)," \
  "or name its program in CHROMIUM." >&2
exit 1
