# Sourced by the scripts that build a counterpart of the end-to-end tests from Go modules into a folder of the cache.
#
# The folder is named after the sources, so a change of version builds anew and an unchanged one costs milliseconds.
# HEADROOM_CACHE moves the cache (default: .cache).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"

# build_once NAME WHAT FILE…
#
# Prints the folder of WHAT, in words, for the content of these files beside the script. If there is none, the function `build`
# of the script fills "$work", with its programs in "$work/bin". NAME is the folder of the cache; the rest of it after a slash
# tells what is built of the same files apart.
build_once() {
  local name=$1 what=$2 key
  shift 2
  local cache="${HEADROOM_CACHE:-$repo/.cache}/${name%%/*}"
  key=$(cd "$here" && cat "$@" build.sh ../build-once.sh | sha256sum | cut -c1-16)
  if [[ $name == */* ]]; then key=${name#*/}-$key; fi
  local done_folder="$cache/$key"
  if [[ ! -d "$done_folder" ]]; then
    mkdir -p "$cache"
    # One build at a time: a second caller waits here and then finds the finished folder.
    exec 9>"$cache/.$key.lock"
    flock 9
  fi
  if [[ ! -d "$done_folder" ]]; then
    command -v go >/dev/null || { echo "build.sh: Go 1.26 or newer is needed to build $what" >&2; exit 1; }
    work=$(mktemp -d "$cache/.$key.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/bin"
    echo "build.sh: building $what" >&2
    # 9>&-: a child that outlives us must not hold the lock. The one line of standard output is the folder.
    build 9>&- >&2
    chmod 755 "$work"
    mv -T "$work" "$done_folder"
    trap - EXIT
  fi
  echo "$done_folder"
}

# go_build ARG…: `go build` beside the script, as small as it gets and behind whoever needs the processor more.
go_build() {
  (cd "$here" && nice -n 10 go build -ldflags "-s -w" "$@")
}

# module_folder MODULE: where the sources of the module are, in the version that go.mod beside the script names. It fetches them
# if need be: of a module that has not been fetched Go knows no folder.
module_folder() {
  (cd "$here" && go mod download "$1" && go list -m -f '{{.Dir}}' "$1")
}
