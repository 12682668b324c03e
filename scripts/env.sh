# Sourced by the scripts and the Makefile: finds the Rust toolchain that setup.sh chose.
# A checkout keeps its choice to itself; the user's default toolchain is never changed.
intarsia_root=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")/.." && pwd)
if [ -d "$HOME/.cargo/bin" ]; then
  PATH="$PATH:$HOME/.cargo/bin"
fi
if [ -d "$intarsia_root/build/toolchain" ]; then
  PATH="$intarsia_root/build/toolchain:$PATH"
fi
if [ -s "$intarsia_root/build/rustup-toolchain" ]; then
  RUSTUP_TOOLCHAIN=$(cat "$intarsia_root/build/rustup-toolchain")
  export RUSTUP_TOOLCHAIN
fi
export PATH
unset intarsia_root
