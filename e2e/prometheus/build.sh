#!/usr/bin/env bash
# Builds Prometheus and promtool for the end-to-end tests from upstream's Go module into a cache folder and prints the folder.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

# A newer Go than the installed one, where go.mod asks for it.
export GOTOOLCHAIN=auto

build() {
  # Without the discovery of targets in clouds, whose clients are most of the server, and without the pages for a browser.
  for program in prometheus promtool; do
    go_build -tags remove_all_sd -o "$work/bin/$program" "github.com/prometheus/prometheus/cmd/$program"
  done
}

build_once prometheus "Prometheus" go.mod go.sum
