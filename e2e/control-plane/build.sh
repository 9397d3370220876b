#!/usr/bin/env bash
# Builds the real control plane (etcd, Kubernetes, KWOK, metrics-server) from Go modules into a cache folder and prints that
# folder. It starts nothing. HEADROOM_KUBERNETES=1.36 takes another version of those in kubernetes-* (default: 1.37).
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

kubernetes=kubernetes-${HEADROOM_KUBERNETES:-1.37}
if [[ ! -d $here/$kubernetes ]]; then
  echo "build.sh: HEADROOM_KUBERNETES=$HEADROOM_KUBERNETES is none of: $(cd "$here" && echo kubernetes-* | sed 's/kubernetes-//g')" >&2
  exit 1
fi

build() {
  # Kubernetes learns its version from the linker; without it clients see v0.0.0.
  local version minor stamp module kwok
  version=$(cd "$here/$kubernetes" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
  minor=${version#v*.} minor=${minor%%.*}
  stamp="-X k8s.io/component-base/version.gitVersion=$version"
  stamp+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"
  # The three share most of what they are made of, in the same versions: share-versions.py. Nobody debugs them, and without debug
  # tables compiling takes a tenth less.
  for module in kwok metrics-server "$kubernetes"; do
    echo "build.sh: building $module"
    (cd "$here/$module" && GOBIN="$work/bin" nice -n 10 go install -gcflags all=-dwarf=false \
      -ldflags "-s -w $([[ $module == kubernetes-* ]] && echo "$stamp")" tool)
  done
  mv "$work/bin/server" "$work/bin/etcd"

  # The stages that bring fake nodes and pods to life, and the metrics KWOK serves.
  kwok=$(cd "$here/kwok" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)
  mkdir "$work/kwok"
  cp -r "$kwok/kustomize/stage" "$kwok/kustomize/metrics" "$work/kwok/"
  chmod -R u+w "$work/kwok"
}

build_once control-plane "the control plane of ${kubernetes#kubernetes-}" {"$kubernetes",kwok,metrics-server}/go.sum
