#!/usr/bin/env bash
# Tests config/aws/cloudformation.yaml and config/aws/terraform: by CloudFormation's linter, and by what they make in memory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
environment=$(../aws/build.sh "$PWD/requirements.txt")
# Nothing is asked of AWS: without any the library would look for credentials.
export PYTHONDONTWRITEBYTECODE=1 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test
exec "$environment/bin/python" -W ignore -m unittest "$@" test_templates
