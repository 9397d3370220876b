#!/usr/bin/env bash
# Packs the programs of the images as a plugin of kubectl: an archive for each platform, krew's manifest headroom.yaml, SHA256SUMS.
#
#   hack/plugin.sh LAYOUT URL OUT     LAYOUT: a folder of hack/image/build.sh; URL: where the archives will be; OUT: a folder
#   HOMEPAGE=https://…                the page that the manifest names (default: URL)
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
layout=$(realpath "${1:?"the folder of the images, such as target/oci"}")
url=${2:?"where the archives will be downloaded from"}
mkdir -p "${3:?"the folder for what is packed"}"
out=$(realpath "$3")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$repo/Cargo.toml" | head -1)

cd "$repo/hack/image"
CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" go run ./plugin -layout "$layout" -url "${url%/}" -homepage "${HOMEPAGE:-$url}" \
  -version "$version" -license "$repo/LICENSE" -out "$out"
