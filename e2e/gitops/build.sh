#!/usr/bin/env bash
# Builds helm, kustomize and the health checks of GitOps tools (check.go) into a cache folder and prints that folder.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

build() {
  (cd "$here" && GOBIN="$work/bin" nice -n 10 go install -ldflags "-s -w" tool .)
}

build_once gitops "helm, kustomize and the GitOps check" go.sum check.go queries.go rbac.go rules.go
