#!/usr/bin/env bash
# Builds the external scaler of the end-to-end tests on KEDA's own package of the protocol into a cache folder and prints the folder.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

build() {
  go_build -o "$work/bin/external-scaler" .
}

build_once externalscaler "the external scaler" go.mod go.sum main.go
