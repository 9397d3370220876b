#!/usr/bin/env bash
# Builds krew, which installs plugins of kubectl, from upstream's Go module into a cache folder and prints the folder.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

build() {
  go_build -o "$work/bin/krew" sigs.k8s.io/krew/cmd/krew
}

build_once krew "krew" go.mod go.sum
