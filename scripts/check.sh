#!/usr/bin/env bash
# The checks that need no running store: format, lints, licences, layers, types.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

failed=()

main() {
  cargo_check fmt --all --check
  cargo_check clippy --workspace --all-targets --locked -- -D warnings
  cargo fetch --locked --quiet
  # The advisory database comes over the network: `cargo deny check advisories` is for a release.
  cargo_check deny --offline check licenses bans sources
  check .venv/bin/ruff check .
  # The benchmarks are scripts in a style of their own; what would not run is still refused.
  check .venv/bin/ruff check --isolated --select E9,F bench
  check .venv/bin/ruff format --check .
  check .venv/bin/mypy
  check .venv/bin/python -m pytest --quiet python/tests/test_layers.py
  check .venv/bin/python -m pytest --quiet --collect-only -qq
  if [ ${#failed[@]} != 0 ]; then
    printf 'failed: %s\n' "${failed[@]}"
    return 1
  fi
  echo "all checks passed"
}

# Goes on after a failure, so that one run shows them all.
check() {
  printf '\n=== %s\n' "$*"
  "$@" || failed+=("$*")
}

# A cargo command that may not be installed.
cargo_check() {
  if cargo "$1" --version >/dev/null 2>&1; then
    check cargo "$@"
  else
    printf '\nSKIPPED: cargo %s is not installed\n' "$1"
  fi
}

main
