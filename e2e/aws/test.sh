#!/usr/bin/env bash
# Tests the simulator itself against boto3. It needs no control plane.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
environment=$(./build.sh)
export PYTHONDONTWRITEBYTECODE=1
exec "$environment/bin/python" -m unittest discover --top-level-directory . --start-directory tests "$@"
