#!/bin/sh
# Builds all targets with a stable toolchain and runs the named ones (all without a name).
#   fuzz/run.sh [SECONDS [TARGET…]]      SECONDS for each target, 30 without
# No sanitizer: outside `codec` and `store` there is no unsafe code, panics are what is looked for.
set -eu
cd "$(dirname "$0")"
seconds=${1:-30}
[ $# -gt 0 ] && shift
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"

# What `cargo fuzz --sanitizer none` passes; none of it needs a nightly compiler. `--target` keeps it
# away from build scripts.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares" \
    cargo build --release --target "$host" --bins

[ $# -gt 0 ] || set -- $(sed -n 's/^name = "\([a-z_]*\)"$/\1/p' Cargo.toml)
failed=
for target in "$@"; do
    mkdir -p "corpus/$target" "artifacts/$target"
    echo "== $target"
    "$CARGO_TARGET_DIR/$host/release/$target" "corpus/$target" \
        -max_total_time="$seconds" -max_len=4096 -print_final_stats=1 \
        -artifact_prefix="artifacts/$target/" || failed="$failed $target"
done
[ -z "$failed" ] || { echo "findings in:$failed; the inputs are in fuzz/artifacts" >&2; exit 1; }
