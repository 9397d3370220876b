#!/usr/bin/env bash
# Builds helm, kustomize and the health checks of GitOps tools (check.go) into a cache folder and prints that folder.
#
# The folder is named after go.sum and the sources, so a change builds anew and nothing else does. HEADROOM_CACHE
# moves the cache (default: .cache).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
cache="${HEADROOM_CACHE:-$repo/.cache}/gitops"
key=$(cat "$here"/{go.sum,check.go,queries.go,rbac.go,rules.go,build.sh} | sha256sum | cut -c1-16)
done_folder="$cache/$key"

if [[ ! -d "$done_folder" ]]; then
  mkdir -p "$cache"
  # One build at a time: a second caller waits here and then finds the finished folder.
  exec 9>"$cache/.$key.lock"
  flock 9
  if [[ ! -d "$done_folder" ]]; then
    command -v go >/dev/null || { echo "build.sh: Go 1.26 or newer is needed to build the tools" >&2; exit 1; }
    work=$(mktemp -d "$cache/.$key.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" GOBIN="$work/bin"
    echo "build.sh: building helm, kustomize and the GitOps check" >&2
    # 9>&-: a child that outlives us must not hold the lock.
    (cd "$here" && nice -n 10 go install -ldflags "-s -w" tool . >&2 9>&-)
    chmod 755 "$work"
    mv -T "$work" "$done_folder"
    trap - EXIT
  fi
fi
echo "$done_folder"
