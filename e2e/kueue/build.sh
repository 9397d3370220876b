#!/usr/bin/env bash
# Builds Kueue for the end-to-end tests from upstream's Go module into a cache folder and prints the folder.
#
#   build.sh           its controller of ProvisioningRequests alone: bin/kueue-provisioning
#   build.sh whole     the manager, which takes ten CPU minutes: bin/kueue, and config.yaml, its objects
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"
part=${1:-provisioning}

build() {
  local module tools
  module=$(module_folder sigs.k8s.io/kueue)
  case $part in
    provisioning) go_build -o "$work/bin/kueue-provisioning" . ;;
    whole)
      go_build -o "$work/bin/kueue" sigs.k8s.io/kueue/cmd/kueue
      tools=$("$repo/e2e/gitops/build.sh")
      "$tools/bin/kustomize" build "$module/config/default" >"$work/config.yaml"
      ;;
    *) echo "build.sh: $part is neither provisioning nor whole"; exit 1 ;;
  esac
  # The definitions of the same version.
  mkdir "$work/crds"
  cp "$module"/config/components/crd/bases/kueue.x-k8s.io_*.yaml "$work/crds/"
  chmod -R u+w "$work/crds"
}

build_once "kueue/$part" "Kueue ($part)" go.mod go.sum main.go
