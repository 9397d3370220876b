#!/usr/bin/env bash
# Builds a container registry on distribution's own handlers into a cache folder and prints the folder.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

build() {
  go_build -o "$work/bin/registry" .
}

build_once registry "the container registry" go.mod go.sum main.go
