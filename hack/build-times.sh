#!/usr/bin/env bash
# Measures what a newcomer and a developer wait for, from a fresh clone with the registry's cache filled, and prints a table.
#
#   hack/build-times.sh            first command, edit and first command, check, edit and check
#   hack/build-times.sh first      the first command alone
#   hack/build-times.sh image      all of these and the image's build, which takes long
#
# Seconds by the clock need an otherwise idle machine; processor time does not. It clones HEAD into a temporary folder (TMPDIR)
# and removes it.
set -euo pipefail
part=${1:-developer}
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --no-hardlinks "$repo" "$work/headroom"
cd "$work/headroom"
unset CARGO_TARGET_DIR
cargo fetch --quiet --locked

# Runs a command and prints its row: seconds by the clock, processor time, and the memory of its largest process.
row() {
  python3 - "$work/log" "$@" <<'PYTHON'
import resource, subprocess, sys, time
log, name, *command = sys.argv[1:]
began = time.monotonic()
with open(log, "wb") as output:
    code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT).returncode
wall = time.monotonic() - began
if code:
    sys.stderr.write(open(log, errors="replace").read() + f"build-times.sh: {name} failed\n")
    sys.exit(1)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"| {name} | {wall:.0f} | {used.ru_utime + used.ru_stime:.0f} | {used.ru_maxrss // 1024} |", flush=True)
PYTHON
}

edit() { printf '\n// Edited by build-times.sh.\n' >>src/operator/src/controllers/nodes/mod.rs; }

echo "$(nproc) cores, $(rustc --version), $(git rev-parse --short HEAD)"
echo
echo '| what | seconds | CPU seconds | largest process, MiB |'
echo '| --- | ---: | ---: | ---: |'
row 'fresh clone to the end of the first command' cargo try simulate examples/rush-hour
[[ $part != first ]] || exit 0
edit
row 'edit in the controllers to the end of the first command' cargo try simulate examples/rush-hour
row 'first `cargo check`' cargo check --locked
edit
row '`cargo check` after an edit in the controllers' cargo check --locked
if [[ $part == image ]]; then
  row 'build of the image profile' cargo build --locked --profile image
fi
