#!/usr/bin/env bash
# Builds everything and runs every test: see run_tests.py, which takes the arguments.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh
exec .venv/bin/python scripts/run_tests.py "$@"
