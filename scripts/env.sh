# shellcheck shell=bash
# Sourced by the scripts and the Makefile: finds the Rust toolchain that setup.sh chose.
# A checkout keeps its choice to itself; the user's default toolchain is never changed.
intarsia_root=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")/.." && pwd)
for intarsia_bin in "$HOME/.cargo/bin" "$intarsia_root/build/toolchain"; do
  case ":$PATH:" in
    *":$intarsia_bin:"*) ;;
    *) [ ! -d "$intarsia_bin" ] || PATH="$intarsia_bin:$PATH" ;;
  esac
done
if [ -s "$intarsia_root/build/rustup-toolchain" ]; then
  RUSTUP_TOOLCHAIN=$(cat "$intarsia_root/build/rustup-toolchain")
  export RUSTUP_TOOLCHAIN
fi
export PATH
unset intarsia_root intarsia_bin
