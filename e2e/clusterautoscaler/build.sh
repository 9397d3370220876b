#!/usr/bin/env bash
# Builds Cluster Autoscaler with its KWOK provider alone from upstream's Go module into a cache folder and prints the folder.
#
# That provider makes one Node object after the other with a client of five calls a second, which no flag changes. No cloud has that
# limit, where a group grows by one call: it would measure the stand-in. So the build raises it.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

build() {
  local module
  module=$(module_folder k8s.io/autoscaler/cluster-autoscaler)
  cp -r --no-preserve=mode "$module" "$work/source"
  sed -i 's/^\tkubeClient := kubeclient.NewForConfigOrDie(restConfig)$/\trestConfig.QPS, restConfig.Burst = 500, 1000\n&/' "$work/source/cloudprovider/kwok/kwok_provider.go"
  if ! grep -q 'restConfig.QPS' "$work/source/cloudprovider/kwok/kwok_provider.go"; then
    echo "build.sh: the KWOK provider makes its client elsewhere now" >&2
    return 1
  fi
  cp "$here/go.mod" "$here/go.sum" "$work/"
  go mod edit -replace "k8s.io/autoscaler/cluster-autoscaler=$work/source" "$work/go.mod"
  go_build -tags kwok -modfile "$work/go.mod" -o "$work/bin/cluster-autoscaler" k8s.io/autoscaler/cluster-autoscaler
  rm -r "$work/source" "$work/go.mod" "$work/go.sum"
}

build_once clusterautoscaler "Cluster Autoscaler" go.mod go.sum
