#!/usr/bin/env bash
# Epilog for sites (slurm.conf: Epilog=/…/epilog.sh): takes the job's store down and removes its data,
# also after a crash of the node or of the job.
set -uo pipefail
# shellcheck source=scripts/slurm/site.sh
. "$(dirname "$(readlink -f "$0")")/site.sh"

main() {
  [ -d "$data" ] || exit 0
  timeout 60 "$program" down "$mount" --this-host --force --purge >/dev/null || timeout 10 umount -l "$mount"
  # What a node that died left behind.
  rmdir "$mount" 2>/dev/null
  rm -rf --one-file-system "$data"
  # A failure would take the host out of service; what could not be removed is in Slurm's log.
  exit 0
}

main
