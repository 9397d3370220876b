#!/usr/bin/env bash
# Builds an OpenTelemetry collector of the components that the end-to-end tests need into a cache folder and prints the folder.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

build() {
  go_build -o "$work/bin/collector" .
}

build_once collector "the OpenTelemetry collector" go.mod go.sum main.go
