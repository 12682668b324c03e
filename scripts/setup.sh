#!/usr/bin/env bash
# Sets a machine up for `make demo` (argument: demo) or `make test` (argument: test).
#
# Idempotent: what is there stays as it is. Packages are installed as root or through a sudo that
# asks for no password; otherwise the script names what is missing and the commands that install
# it, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

min_rust=1.90
rustup_toolchain=1.95.0
packages_demo=(build-essential ca-certificates fuse3 montage montage-gridtools ncbi-blast+
               pkg-config python3 python3-venv)
# shellcheck disable=SC2034 # named by the argument
packages_test=("${packages_demo[@]}" acl attr bindfs chromium default-jre-headless e2fsprogs fio git iproute2 libnbd-bin
               libsimgrid-dev maven nbdkit nftables postmark procps rsync sqlite3 tar util-linux)
# Their programs are started by the tests themselves; their services stay down.
# shellcheck disable=SC2034
programs_demo=() programs_test=(openssh-server redis-server slurm-wlm)

main() {
  local purpose=${1:?usage: setup.sh demo|test}
  local -n wanted="packages_$purpose" programs="programs_$purpose"
  local rust=
  if command -v apt-get >/dev/null; then
    rust=$(rust_packages)
    # shellcheck disable=SC2086 # no package, or two
    install_packages "${wanted[@]}" $rust
    install_programs "${programs[@]}"
  else
    say "no apt-get here, so what these Debian packages hold must be there: ${wanted[*]} ${programs[*]}"
  fi
  ensure_rust "$rust"
  ensure_python
  if [ "$purpose" = test ]; then
    ensure_suites
    scripts/fetch_nextflow.sh || say "Nextflow was not fetched from Maven Central; its test is skipped"
  fi
}

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$@" >&2; exit 1; }

# Prints how commands become root: nothing for root, `sudo -n` where no password is needed.
root_prefix() {
  if [ "$(id -u)" = 0 ]; then
    return 0
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    echo "sudo -n"
  else
    return 1
  fi
}

as_root() {
  local prefix
  prefix=$(root_prefix) || die "root is needed, and sudo asks for a password. Run once:" "  sudo $*" \
    "and then make again"
  # shellcheck disable=SC2086 # the prefix is empty or two words
  $prefix env DEBIAN_FRONTEND=noninteractive "$@"
}

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

install_packages() {
  local package missing=()
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return 0
  root_prefix >/dev/null || die "these packages are missing: ${missing[*]}" \
    "root is needed, and sudo asks for a password. Run once:" \
    "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" \
    "and then make again"
  refresh_package_lists
  say "installing ${missing[*]}"
  as_root apt-get install -y --no-install-recommends "${missing[@]}" >&2
}

# Installs packages without starting the services that come with them, now or at the next boot.
install_programs() {
  local package missing=() policy=/usr/sbin/policy-rc.d made_policy=
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return 0
  if root_prefix >/dev/null && [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
    as_root chmod 755 $policy
    made_policy=yes
  fi
  local status=0
  (install_packages "${missing[@]}") || status=$?
  [ -z "$made_policy" ] || as_root rm -f $policy
  [ $status = 0 ] || exit $status
  command -v systemctl >/dev/null || return 0
  for package in "${missing[@]}"; do
    case $package in
      openssh-server) as_root systemctl disable --quiet ssh ;;
      redis-server) as_root systemctl disable --quiet redis-server ;;
      slurm-wlm) as_root systemctl disable --quiet slurmctld slurmd munge ;;
    esac
  done >&2 || true
}

lists_are_fresh=
refresh_package_lists() {
  [ -n "$lists_are_fresh" ] && return 0
  root_prefix >/dev/null || return 0
  as_root apt-get update -q >&2
  lists_are_fresh=yes
}

# Rust: a toolchain that is new enough stays; then the distribution's own newest; then rustup's.
ensure_rust() {
  link_versioned "$1"
  rust_is_new_enough && return 0
  install_rustup_toolchain
  rust_is_new_enough || die "Rust $min_rust or newer is needed; $(rust_found)." \
    "Install it from https://rustup.rs and run make again"
}

rust_is_new_enough() {
  # shellcheck source=scripts/env.sh
  . scripts/env.sh
  hash -r
  local version
  version=$(rustc --version 2>/dev/null | cut -d' ' -f2) || return 1
  cargo --version >/dev/null 2>&1 || return 1
  [ -n "$version" ] && dpkg --compare-versions "$version" ge "$min_rust"
}

rust_found() { rustc --version 2>/dev/null || echo "no rustc was found"; }

# Prints the packages of a compiler that is new enough, where one is needed and there is one.
# Debian keeps a current compiler for its browsers under the names rustc-web and cargo-web; it
# takes the place of the older packages. Ubuntu has versioned ones (rustc-1.91, cargo-1.91).
rust_packages() {
  rust_is_new_enough && return 0
  refresh_package_lists
  local suffix
  for suffix in "" -web $(versioned_rust_suffixes); do
    [ -n "$(candidate "cargo$suffix")" ] || continue
    dpkg --compare-versions "$(candidate "rustc$suffix")" ge "$min_rust" || continue
    echo "rustc$suffix cargo$suffix"
    return 0
  done
}

candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p' | grep -v '(none)' || true; }

versioned_rust_suffixes() {
  apt-cache search --names-only '^rustc-1\.[0-9]+$' 2>/dev/null | sed -n 's/^rustc\(-1\.[0-9]*\) .*/\1/p' | sort -rV
}

# Versioned packages install rustc-1.91 and cargo-1.91; env.sh puts this folder first.
link_versioned() {
  case $1 in rustc-1.*) ;; *) return 0 ;; esac
  local tool version=${1%% *}
  mkdir -p build/toolchain
  for tool in cargo rustc rustdoc; do
    ln -sfn "/usr/bin/$tool${version#rustc}" "build/toolchain/$tool"
  done
}

install_rustup_toolchain() {
  if ! command -v rustup >/dev/null; then
    [ -n "$(candidate rustup)" ] || die "Rust $min_rust or newer is needed; $(rust_found), and" \
      "no package here is new enough. Install it from https://rustup.rs and run make again"
    install_packages rustup
  fi
  say "installing Rust $rustup_toolchain with rustup"
  rustup toolchain install --no-self-update --profile minimal "$rustup_toolchain" >&2
  mkdir -p build
  echo "$rustup_toolchain" > build/rustup-toolchain
}

ensure_python() {
  local key
  key=$(cat python/requirements.lock pyproject.toml | sha256sum | cut -d' ' -f1)
  [ "$(cat .venv/.installed 2>/dev/null)" = "$key" ] && .venv/bin/python -c '' 2>/dev/null && return 0
  say "making the Python environment in .venv"
  # Debian's own interpreter first: another one in the PATH may lack venv or be too old.
  local python=/usr/bin/python3
  [ -x "$python" ] || python=python3
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "Python 3.11 or newer is needed; $("$python" --version)"
  "$python" -m venv --clear .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r python/requirements.lock
  .venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
  echo "$key" > .venv/.installed
}

# The POSIX suites that tests/posix runs. Cargo leaves alone what is installed already.
ensure_suites() {
  # shellcheck source=scripts/env.sh
  . scripts/env.sh
  cargo install --quiet --locked --root target/tools pjdfstest@0.2.2 fsx@0.3.2
}

main "$@"
