#!/usr/bin/env bash
# Makes the Python environment of the AWS simulator, or that of another file of requirements, in a cache folder and prints that
# folder. It starts nothing.
#
#   e2e/aws/build.sh [REQUIREMENTS]
#
# The folder is named after the requirements, whose packages are pinned by hash, and after the Python that runs them, so
# a change builds anew and no change costs milliseconds. HEADROOM_CACHE moves the cache (default: .cache).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
requirements=${1:-$here/requirements.txt}
cache="${HEADROOM_CACHE:-$repo/.cache}/aws-sim"
python="${PYTHON:-python3}"

if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
  echo "build.sh: Python 3.10 or newer with venv is needed for the AWS simulator; \`$python\` is none." \
    "Install it, or name another one in PYTHON." >&2
  exit 1
fi

key=$({ cat "$requirements" "$here/build.sh"; "$python" -VV; } | sha256sum | cut -c1-16)
done_folder="$cache/$key"
if [[ -x "$done_folder/bin/python" && -e "$done_folder/complete" ]]; then
  echo "$done_folder"
  exit 0
fi

mkdir -p "$cache"
# One build at a time: a second caller waits here and then finds the finished folder.
exec 9>"$cache/.$key.lock"
flock 9
if [[ -e "$done_folder/complete" ]]; then
  echo "$done_folder"
  exit 0
fi

# An environment knows its own path, so it is made in place; the mark says that it is whole.
rm -rf "$done_folder"
echo "build.sh: installing the packages of ${requirements#"$repo/"}" >&2
"$python" -m venv "$done_folder" >&2
nice -n 10 "$done_folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
  --require-hashes --only-binary :all: --requirement "$requirements" >&2 9>&-
touch "$done_folder/complete"
echo "$done_folder"
