#!/usr/bin/env bash
# Builds Karpenter with its KWOK provider for the end-to-end tests from upstream's Go module into a cache folder and prints the folder.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

# The Go that its go.mod asks for, where an older one is installed.
GOTOOLCHAIN=$(sed -n 's/^go /go/p' "$here/go.mod")+auto
export GOTOOLCHAIN

build() {
  local module
  go_build -o "$work/bin/karpenter" sigs.k8s.io/karpenter/kwok
  # The definitions of the same version.
  module=$(module_folder sigs.k8s.io/karpenter)
  mkdir "$work/crds"
  cp "$module"/pkg/apis/crds/*.yaml "$module"/kwok/apis/crds/*.yaml "$work/crds/"
  chmod -R u+w "$work/crds"
}

build_once karpenter "Karpenter" go.mod go.sum
