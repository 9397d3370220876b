#!/usr/bin/env bash
# Writes crds/, one file a definition, from what `headroom crds` prints, and docs/fields.md.
#
#   HEADROOM_BIN=FILE   the program, where it is built already
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

headroom=(cargo run --quiet --package headroom --bin headroom --)
[[ -z ${HEADROOM_BIN:-} ]] || headroom=("$HEADROOM_BIN")
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
"${headroom[@]}" crds >"$fresh/all"

# Documents are parted by ---; a file is called after its definition's metadata.name.
awk -v folder="$fresh" '
  function flush_document() { if (name != "") printf "%s", text > (folder "/" name ".yaml"); text = ""; name = "" }
  /^---$/ { flush_document(); next }
  /^  name: / && name == "" { name = $2; gsub(/"/, "", name) }
  { text = text $0 "\n" }
  END { flush_document() }
' "$fresh/all"

ls "$fresh"/*.yaml >/dev/null || { echo "crds.sh: headroom crds printed no definition" >&2; exit 1; }
mkdir -p crds
rm -f crds/*.yaml
cp "$fresh"/*.yaml crds/
ls crds/*.yaml
"${headroom[@]}" crds --docs >"$fresh/fields.md"
cp "$fresh/fields.md" docs/fields.md
echo docs/fields.md
