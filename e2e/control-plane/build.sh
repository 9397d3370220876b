#!/usr/bin/env bash
# Builds the real control plane (etcd, Kubernetes, KWOK, metrics-server) from Go modules
# into a cache folder and prints that folder. It starts nothing.
#
# The folder is named after the three go.sum files and this script, so a change of version
# builds anew and an unchanged one costs milliseconds. HEADROOM_CACHE moves the cache (default: .cache).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
cache="${HEADROOM_CACHE:-$repo/.cache}/control-plane"

key=$(cat "$here"/{kubernetes,kwok,metrics-server}/go.sum "$here/build.sh" | sha256sum | cut -c1-16)
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

command -v go >/dev/null || { echo "build.sh: Go 1.26 or newer is needed to build the control plane" >&2; exit 1; }

work=$(mktemp -d "$cache/.$key.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin"

export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" GOBIN="$work/bin"
# Kubernetes learns its version from the linker; without it clients see v0.0.0.
version=$(cd "$here/kubernetes" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v*.} minor=${minor%%.*}
stamp="-X k8s.io/component-base/version.gitVersion=$version"
stamp+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"

for module in kwok metrics-server kubernetes; do
  echo "build.sh: building $module" >&2
  # 9>&-: a child that outlives us must not hold the lock.
  (cd "$here/$module" && nice -n 10 go install -ldflags "-s -w $([[ $module == kubernetes ]] && echo "$stamp")" tool >&2 9>&-)
done
mv "$work/bin/server" "$work/bin/etcd"

# The stages that bring fake nodes and pods to life, and the metrics KWOK serves.
kwok_source=$(cd "$here/kwok" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)
mkdir -p "$work/kwok"
cp -r "$kwok_source/kustomize/stage" "$kwok_source/kustomize/metrics" "$work/kwok/"
chmod -R u+w "$work/kwok"

chmod 755 "$work"
mv -T "$work" "$done_folder"
trap - EXIT
echo "$done_folder"
