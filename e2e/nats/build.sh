#!/usr/bin/env bash
# Builds NATS' server, and the program that fills its streams, of the end-to-end tests into a cache folder and prints the folder.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

build() {
  go_build -o "$work/bin/nats" .
}

build_once nats "the NATS server" go.mod go.sum main.go
