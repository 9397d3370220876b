#!/usr/bin/env bash
# Builds the servers of the end-to-end tests for externalgrpc and for the expander `grpc` from upstream's Go module into a cache
# folder and prints the folder.
#
# The folder is named after go.sum and the sources, so a change of version builds anew and an unchanged one costs
# milliseconds. HEADROOM_CACHE moves the cache (default: .cache).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
cache="${HEADROOM_CACHE:-$repo/.cache}/externalgrpc"

key=$(cat "$here"/{go.mod,go.sum,main.go,expander/main.go,serving/serving.go,build.sh} | sha256sum | cut -c1-16)
done_folder="$cache/$key"

if [[ -d "$done_folder" ]]; then
  echo "$done_folder"
  exit 0
fi

mkdir -p "$cache"
# One build at a time: a second caller waits here and then finds the finished folder.
exec 9>"$cache/.$key.lock"
flock 9
if [[ -d "$done_folder" ]]; then
  echo "$done_folder"
  exit 0
fi

command -v go >/dev/null || { echo "build.sh: Go 1.26 or newer is needed to build the externalgrpc servers" >&2; exit 1; }

work=$(mktemp -d "$cache/.$key.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin"

export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
echo "build.sh: building the externalgrpc servers" >&2
# 9>&-: a child that outlives us must not hold the lock.
(cd "$here" && nice -n 10 go build -ldflags "-s -w" -o "$work/bin/externalgrpc-server" . >&2 9>&-)
(cd "$here" && nice -n 10 go build -ldflags "-s -w" -o "$work/bin/expander-server" ./expander >&2 9>&-)

chmod 755 "$work"
mv -T "$work" "$done_folder"
trap - EXIT
echo "$done_folder"
