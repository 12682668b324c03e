#!/usr/bin/env bash
# Runs what takes as long as one lets it, one round after the other, and each for an equal part of the time:
#   scripts/test_long.sh [MINUTES [ROUND…]]      60 minutes without; all rounds without a name
# Rounds: simulation (seeds that differ from call to call), life-cycle (stores brought up and down, told from a new seed),
# replacements (files replaced under readers on four hosts), workflows (a fault in the middle of each pattern), fuzz (all decoders).
# What each said is in build/test-long; ends with 1 if one of them found something. The builds come on top of the time.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

minutes=${1:-60}
[ $# -gt 0 ] && shift
case $minutes in
'' | *[!0-9]* | 0) echo "test_long.sh: '$minutes' is no number of minutes; write one, as in: scripts/test_long.sh 60" >&2; exit 2 ;;
esac
all="simulation life-cycle replacements workflows fuzz"
rounds=${*:-$all}
for round in $rounds; do
  case " $all " in
  *" $round "*) ;;
  *) echo "test_long.sh: '$round' is none of: $all" >&2; exit 2 ;;
  esac
done
seconds=$((minutes * 60 / $(wc -w <<<"$rounds")))
logs=build/test-long
mkdir -p "$logs"
# Another one from hour to hour, so that two calls do not do the same.
seed=$((1000000 + $(date +%s) / 3600 * 1000))

simulation() {
  cargo build --locked --workspace --profile sim --bin sim || return
  local end=$((SECONDS + seconds)) failed=0
  while [ $SECONDS -lt $end ]; do
    target/sim/sim --seeds 20 --from "$seed" || failed=1
    seed=$((seed + 20))
  done
  return $failed
}

life-cycle() {
  cargo build --release --locked --workspace --bin intarsia --bin life-cycle || return
  target/release/life-cycle stories --count 1000 --seed "$seed" --minutes $(((seconds + 59) / 60))
}

replacements() {
  cargo build --locked --workspace --bin intarsia || return
  INTARSIA_HISTORY_SECONDS=$seconds cargo test --locked --workspace --test history readers_on_all -- --nocapture
}

workflows() {
  cargo build --locked --workspace --bin intarsia || return
  # Ended at the bound: what was told until then has passed.
  INTARSIA_TEST_STORIES=all timeout --signal=INT --kill-after=60 "$seconds" \
    .venv/bin/python -m pytest -x -s tests/workflows/test_run_faults.py || [ $? -eq 124 ]
}

fuzz() {
  local targets
  targets=$(sed -n 's/^name = "\([a-z_]*\)"$/\1/p' fuzz/Cargo.toml | wc -l)
  fuzz/run.sh $((seconds / targets + 1))
}

found=
for round in $rounds; do
  echo "== $round, $((seconds / 60)) min, in $logs/$round.log"
  if "$round" >"$logs/$round.log" 2>&1; then
    tail -n 1 "$logs/$round.log"
  else
    tail -n 20 "$logs/$round.log"
    found="$found $round"
  fi
done
[ -z "$found" ] || { echo "found something:$found" >&2; exit 1; }
echo "nothing found"
