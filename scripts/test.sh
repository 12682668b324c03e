#!/usr/bin/env bash
# Runs every test, stage by stage, and ends with one line that counts them all.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

logs=build/test-logs
passed=0 failed=0 skipped=0 broken=()

main() {
  mkdir -p "$logs"
  rm -f "$logs"/*.log
  stage "Rust: build" cargo build --workspace --locked
  stage "Rust: tests" cargo test --workspace --locked --no-fail-fast
  count_cargo "$logs/Rust: tests.log"
  export INTARSIA_BIN=$PWD/target/debug/intarsia
  stage "Python: tests" .venv/bin/python -m pytest python/tests
  count_pytest "$logs/Python: tests.log"
  stage "Workflows: tools and workflows in the mount" .venv/bin/python -m pytest tests/workflows
  count_pytest "$logs/Workflows: tools and workflows in the mount.log"
  report
}

# Runs a stage to its end even when an earlier one failed: one run shows every failure.
stage() {
  local name=$1 started=$SECONDS
  shift
  printf '\n=== %s: %s\n' "$name" "$*"
  "$@" 2>&1 | tee "$logs/$name.log" || broken+=("$name")
  printf '=== %s: %d s\n' "$name" $((SECONDS - started))
}

count_cargo() {
  local counts
  read -ra counts < <(awk '/^test result:/ {p += $4; f += $6; s += $8} END {print p + 0, f + 0, s + 0}' "$1")
  add_up "${counts[@]}"
}

count_pytest() {
  local summary
  summary=$(grep -E '^(=+ )?.*[0-9]+ (passed|failed|skipped|errors?)' "$1" | tail -n 1 || true)
  add_up "$(number passed)" $(($(number failed) + $(number 'errors?'))) "$(number skipped)"
}

# Finds "12 passed" and the like in $summary.
number() { grep -oE "[0-9]+ $1" <<<"$summary" | grep -oE '^[0-9]+' || echo 0; }

add_up() {
  passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

report() {
  printf '\n'
  [ "$skipped" = 0 ] || printf '%d skipped: the reasons are above\n' "$skipped"
  if [ ${#broken[@]} != 0 ]; then
    printf 'stage failed: %s\n' "${broken[@]}"
    # A stage that did not even build or start counts as a failure of its own.
    [ "$failed" != 0 ] || failed=${#broken[@]}
  fi
  printf '%d passed, %d failed\n' "$passed" "$failed"
  [ "$failed" = 0 ]
}

main
