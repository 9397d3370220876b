#!/usr/bin/env bash
# Builds Kueue for the end-to-end tests from upstream's Go module into a cache folder and prints the folder.
#
#   build.sh           its controller of ProvisioningRequests alone: bin/kueue-provisioning
#   build.sh whole     the manager, which takes ten CPU minutes: bin/kueue, and config.yaml, its objects
#
# Each has a folder of its own, named after go.sum and the sources, so a change of version builds anew and an unchanged one costs
# milliseconds. HEADROOM_CACHE moves the cache (default: .cache).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
part=${1:-provisioning}
cache="${HEADROOM_CACHE:-$repo/.cache}/kueue"

key=$part-$(cat "$here"/{go.mod,go.sum,main.go,build.sh} | sha256sum | cut -c1-16)
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

command -v go >/dev/null || { echo "build.sh: Go 1.26 or newer is needed to build Kueue" >&2; exit 1; }

work=$(mktemp -d "$cache/.$key.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/crds"

export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
echo "build.sh: building Kueue ($part)" >&2
module=$(cd "$here" && go list -m -f '{{.Dir}}' sigs.k8s.io/kueue)
# 9>&-: a child that outlives us must not hold the lock.
case $part in
  provisioning)
    (cd "$here" && nice -n 10 go build -ldflags "-s -w" -o "$work/bin/kueue-provisioning" . >&2 9>&-)
    ;;
  whole)
    (cd "$here" && nice -n 10 go build -ldflags "-s -w" -o "$work/bin/kueue" sigs.k8s.io/kueue/cmd/kueue >&2 9>&-)
    "$("$repo/e2e/gitops/build.sh")/bin/kustomize" build "$module/config/default" >"$work/config.yaml"
    ;;
  *) echo "build.sh: $part is neither provisioning nor whole" >&2; exit 1 ;;
esac
# The definitions of the same version.
cp "$module"/config/components/crd/bases/kueue.x-k8s.io_*.yaml "$work/crds/"
chmod -R u+w "$work/crds"

chmod 755 "$work"
mv -T "$work" "$done_folder"
trap - EXIT
echo "$done_folder"
