#!/usr/bin/env bash
# Puts the incidents of docs/development/incidents.md into a copy of the sources, each behind a switch that exists in the copy only, and runs
# the world of each: the checker must report the invariant that src/faults/tests/incidents/series names. The patches in that folder
# apply in series, `base.patch` first.
#
#   hack/incidents.sh [NAME…]           all incidents, or these (default: all); prints a table
#   hack/incidents.sh --refresh         writes the patches anew from where they apply now, and runs nothing
#   hack/incidents.sh --check           says whether all patches apply, and runs nothing
#   HEADROOM_INCIDENTS=DIR              the copy and its build (default: target/soak/incidents). The build is kept
#   HEADROOM_INCIDENTS_JOBS=N           worlds that run at a time (default: as many as there are cores)
#
# Ends with 1 if a patch does not apply or an incident is not found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
patches=$PWD/src/faults/tests/incidents
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(realpath -m "${HEADROOM_INCIDENTS:-$target/soak/incidents}")
copy=$work/copy next=$work/next

patched() { # Names of the patches, in the order in which they apply.
  echo base
  while read -r name _; do
    if [[ $name != \#* && -e $patches/$name.patch ]]; then echo "$name"; fi
  done <"$patches/series"
}

rm -rf "$next"
mkdir -p "$next" "$copy"
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do if [[ -f $file ]]; then printf '%s\0' "$file"; fi; done |
  tar --create --null --files-from=- | tar --extract --directory "$next"

# A repository of its own, so that git applies the patches here and not to the one around it.
commit() { git -C "$next" -c user.name=incidents -c user.email=incidents@localhost commit --quiet --all --message "$1"; }
git -C "$next" init --quiet
git -C "$next" add --all --force
commit sources
for name in $(patched); do
  if ! git -C "$next" apply --index -C1 --whitespace=nowarn "$patches/$name.patch"; then
    echo "incidents.sh: $name.patch does not apply: change it by hand, then run hack/incidents.sh --refresh" >&2
    exit 1
  fi
  commit "$name"
  if [[ ${1:-} == --refresh ]]; then
    git -C "$next" diff --no-color --no-ext-diff HEAD~ HEAD | grep -v '^index ' >"$patches/$name.patch"
  fi
done
rm -rf "$next/.git"
if [[ ${1:-} == --refresh || ${1:-} == --check ]]; then exit; fi

# What is the same keeps its time, so that cargo builds only what has changed.
(cd "$next" && find . -type f -print0) | while IFS= read -r -d '' file; do
  if ! cmp --quiet "$next/$file" "$copy/$file"; then
    mkdir -p "$(dirname "$copy/$file")"
    cp "$next/$file" "$copy/$file"
  fi
done
(cd "$copy" && find . -type f -print0) | while IFS= read -r -d '' file; do
  if [[ ! -e $next/$file ]]; then rm "$copy/$file"; fi
done
rm -rf "$next"

# Packages of others are built already where `make test` has run; our own would differ, and stay behind.
if [[ ! -e $work/target && -d $target/debug/.fingerprint ]]; then
  mkdir -p "$work/target/debug"
  (cd "$target/debug" && find build .fingerprint deps -type f ! -path '*headroom*' ! -path '*e2e*' \
    \( ! -path 'deps/*' -o -name '*.*' \) -print0) |
    tar --create --directory "$target/debug" --null --files-from=- | tar --extract --directory "$work/target/debug"
fi
CARGO_TARGET_DIR=$work/target cargo build --quiet --workspace --features headroom/failpoints --locked \
  --manifest-path "$copy/Cargo.toml" --bin simulate-faults

mkdir -p "$work/results"
find_one() { # Runs the world of one incident until the invariant is violated; prints a row of the table.
  local name=$1 theme=$2 seed=$3 invariant=$4 place=patch
  local options=(--from "$seed" --seeds 1 --jobs 1 --until "$invariant")
  if [[ $theme != - ]]; then options+=(--theme "$theme"); fi
  if [[ ! -e $patches/$name.patch ]]; then
    place=seam
    options+=(--seam "$name")
  fi
  # It ends with 1 when a seed fails, which is what is wanted.
  HEADROOM_INCIDENT=$name "$work/target/debug/simulate-faults" "${options[@]}" >"$work/results/$name" 2>&1 || true
  local found
  found=$(grep --only-matching --max-count=1 " $invariant: .*" "$work/results/$name" || true)
  if [[ -z $found ]]; then found=" NOT FOUND"; fi
  printf '| %-26s | %-5s | %-8s | %4s |%.100s |\n' "$name" "$place" "$theme" "$seed" "$found"
}
export -f find_one
export work patches

echo '| incident                   | put in at | theme | seed | found by |'
echo '| --- | --- | --- | ---: | --- |'
while read -r name theme seed invariant; do
  [[ $name != \#* && ${seed:--} != - ]] || continue
  if [[ $# -eq 0 || " $* " == *" $name "* ]]; then echo "$name $theme $seed $invariant"; fi
done <"$patches/series" |
  xargs --max-procs="${HEADROOM_INCIDENTS_JOBS:-$(nproc)}" --max-lines=1 bash -c 'find_one "$@"' - | sort | tee "$work/results.md"
missed=$(grep -c 'NOT FOUND' "$work/results.md" || true)
echo "$(($(wc -l <"$work/results.md") - missed)) incidents found, $missed not found"
[[ $missed -eq 0 ]]
