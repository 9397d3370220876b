#!/usr/bin/env bash
# libFuzzer on everything that is read from outside (src/faults/src/fuzz_targets), one target after the other. The compiler is the stable
# one: what libFuzzer needs to see coverage is a pass of LLVM that it has too.
#
#   hack/fuzz.sh [SECONDS] [TARGET…]    CPU seconds for each target (default 600); TARGET: some of them only (default: all)
#   HEADROOM_FUZZ=DIR                 where the build, the corpora and what fails are kept (default: target/soak/fuzz)
#
# A run begins with the corpora of the last one. What fails stays in DIR/TARGET.crash-*, and is tried again by
# HEADROOM_FUZZ_TARGET=TARGET DIR/.../fuzz FILE.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-600}
shift || true
work=$(realpath -m "${HEADROOM_FUZZ:-target/soak/fuzz}")
mkdir -p "$work"

host=$(rustc -vV | sed -n 's/^host: //p')
passes="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
passes+=" -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
# For the host by name, so that what runs while building is not instrumented.
RUSTFLAGS="$passes" CARGO_TARGET_DIR="$work/target" \
  cargo build --quiet --locked --package fuzz --features libfuzzer --profile fuzz --target "$host"
fuzz=$work/target/$host/fuzz/fuzz

targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || mapfile -t targets < <(sed -n 's/.*\bname: "\([a-z0-9_]*\)".*/\1/p' src/faults/src/fuzz_targets.rs src/faults/src/fuzz_targets/files.rs)

# A run of one target, as long as its time on a processor is not used up: beside other work a minute has fewer seconds of it.
try() {
  local target=$1 corpus=$2 used=0 before
  # A whole world is longer, and its plans have limits of their own.
  local limits=(-max_len=4096 -timeout=10 -rss_limit_mb=2048)
  [[ $target != plans ]] || limits=(-max_len=32768 -timeout=5 -rss_limit_mb=1024 -malloc_limit_mb=256)
  : >"$work/$target.log"
  while (( used < seconds )); do
    before=$(children)
    HEADROOM_FUZZ_TARGET=$target HEADROOM_CORPUS=$corpus "$fuzz" -max_total_time=$((seconds - used)) "${limits[@]}" \
      -print_final_stats=1 -artifact_prefix="$work/$target." "$corpus" >>"$work/$target.log" 2>&1 || return 1
    used=$((used + $(children) - before + 1))
  done
}

# CPU seconds of the programs that this script has run.
children() {
  awk '{ print int(($16 + $17) / '"$(getconf CLK_TCK)"') }' "/proc/$$/stat"
}

failed=()
for target in "${targets[@]}"; do
  corpus=$work/corpus/$target
  mkdir -p "$corpus"
  if try "$target" "$corpus"; then
    word=held
  else
    word=FAILED
    failed+=("$target")
  fi
  tried=$(awk '/^stat::number_of_executed_units:/ { all += $2 } END { print all + 0 }' "$work/$target.log")
  seen=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$work/$target.log" | tail -1)
  printf '%-26s %-6s %12s cases, %6s places reached, %5s kept\n' "$target" "$word" "$tried" "${seen:-0}" "$(ls "$corpus" | wc -l)"
done
if (( ${#failed[@]} )); then
  echo "fuzz.sh: ${failed[*]}: see $work/TARGET.log" >&2
  exit 1
fi
