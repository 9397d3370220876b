#!/usr/bin/env bash
# Builds the rollout controller of Argo Rollouts for the end-to-end tests from upstream's Go module into a cache folder and prints
# the folder.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

build() {
  local module
  go_build -o "$work/bin/rollouts" .
  # The definitions of the same version.
  module=$(module_folder github.com/argoproj/argo-rollouts)
  mkdir "$work/crds"
  cp "$module"/manifests/crds/*-crd.yaml "$work/crds/"
  chmod -R u+w "$work/crds"
}

build_once rollouts "Argo Rollouts" go.mod go.sum main.go
