#!/usr/bin/env bash
# Prolog for sites (slurm.conf: Prolog=/…/prolog.sh, PrologFlags=Alloc). For a job on one host that asks
# for the feature `intarsia` it brings a store up as root, which gives the kernel's passthrough, and
# hands its root directory to the job's user. The job finds it at /mnt/intarsia-$SLURM_JOB_ID.
#
# A job on several hosts brings its own store up, with `intarsia up` in the job.
set -euo pipefail
# shellcheck source=scripts/slurm/site.sh
. "$(dirname "$(readlink -f "$0")")/site.sh"

main() {
  wants_store || exit 0
  case ${SLURM_JOB_NODELIST:-${SLURM_NODELIST:-}} in
    *[,[]*) exit 0 ;;
  esac
  mkdir -p "$(dirname "$data")"
  # shellcheck disable=SC2086 # flags are words
  timeout 60 "$program" up "$mount" --this-host --dir "$data" --allow-other ${INTARSIA_FLAGS:-} >/dev/null
  chown "${SLURM_JOB_UID:?}:${SLURM_JOB_GID:-$SLURM_JOB_UID}" "$mount"
  chmod 0700 "$mount"
}

main
