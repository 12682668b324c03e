#!/usr/bin/env bash
# The checks that need no running store: format, lints, licences, layers, types.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

skip() { printf 'SKIPPED: %s\n' "$*"; }
has() { cargo "$1" --version >/dev/null 2>&1; }

if has fmt; then cargo fmt --all --check; else skip "cargo fmt is not installed"; fi
if has clippy; then
  cargo clippy --workspace --all-targets --locked -- -D warnings
else
  skip "cargo clippy is not installed"
fi
# The advisory database comes over the network: `cargo deny check advisories` is for a release.
if has deny; then
  cargo deny --offline check licenses bans sources
else
  skip "cargo-deny is not installed (make tools)"
fi
.venv/bin/ruff check .
# The benchmarks are scripts in a style of their own; what would not run is still refused.
.venv/bin/ruff check --isolated --select E9,F bench
.venv/bin/ruff format --check .
.venv/bin/mypy
.venv/bin/python -m pytest --quiet python/tests/test_layers.py
.venv/bin/python -m pytest --quiet --collect-only >/dev/null
echo "all checks passed"
