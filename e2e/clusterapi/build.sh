#!/usr/bin/env bash
# Builds the controllers of Cluster API for the end-to-end tests from upstream's Go module into a cache folder and prints the folder.
#
# The folder is named after go.sum and the sources, so a change of version builds anew and an unchanged one costs
# milliseconds. HEADROOM_CACHE moves the cache (default: .cache).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
cache="${HEADROOM_CACHE:-$repo/.cache}/clusterapi"

key=$(cat "$here"/{go.mod,go.sum,main.go,amounts.go,build.sh} | sha256sum | cut -c1-16)
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

command -v go >/dev/null || { echo "build.sh: Go 1.26 or newer is needed to build the controllers of Cluster API" >&2; exit 1; }

work=$(mktemp -d "$cache/.$key.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin"

export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
echo "build.sh: building the controllers of Cluster API" >&2
# 9>&-: a child that outlives us must not hold the lock.
(cd "$here" && nice -n 10 go build -ldflags "-s -w" -o "$work/bin/cluster-api" . >&2 9>&-)
# The definitions of the same version.
module=$(cd "$here" && go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)
mkdir -p "$work/crds"
cp "$module"/core/config/crd/bases/cluster.x-k8s.io_*.yaml "$work/crds/"
chmod -R u+w "$work/crds"

chmod 755 "$work"
mv -T "$work" "$done_folder"
trap - EXIT
echo "$done_folder"
