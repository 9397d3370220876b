#!/usr/bin/env bash
# Builds the servers of the end-to-end tests for externalgrpc and for the expander `grpc` from upstream's Go module into a cache
# folder and prints the folder.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

build() {
  go_build -o "$work/bin/externalgrpc-server" .
  go_build -o "$work/bin/expander-server" ./expander
}

build_once externalgrpc "the externalgrpc servers" go.mod go.sum main.go expander/main.go serving/serving.go
