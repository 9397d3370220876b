#!/usr/bin/env bash
# Builds the controllers of Cluster API for the end-to-end tests from upstream's Go module into a cache folder and prints the folder.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

build() {
  go_build -o "$work/bin/cluster-api" .
  # The definitions of the same version.
  mkdir "$work/crds"
  cp "$(module_folder sigs.k8s.io/cluster-api)"/core/config/crd/bases/cluster.x-k8s.io_*.yaml "$work/crds/"
  chmod -R u+w "$work/crds"
}

build_once clusterapi "the controllers of Cluster API" go.mod go.sum main.go amounts.go
