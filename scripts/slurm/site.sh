# shellcheck shell=bash disable=SC2034 # used by those that source it
# Shared by the prolog and the epilog. A site sets these in /etc/intarsia/slurm.conf:
#   INTARSIA_FEATURE   constraint by which a job asks for a store   (intarsia)
#   INTARSIA_TIER      directory on a local disk, for the data      (/var/lib/intarsia)
#   INTARSIA_MOUNTS    directory below which stores are mounted     (/mnt)
#   INTARSIA_FLAGS     more flags of `intarsia up`                  (none)
#   INTARSIA_PROGRAM   the program                                  (intarsia)
site=${INTARSIA_SITE:-/etc/intarsia/slurm.conf}
# shellcheck disable=SC1090 # the site's own file
[ ! -r "$site" ] || . "$site"
feature=${INTARSIA_FEATURE:-intarsia}
program=${INTARSIA_PROGRAM:-intarsia}
job=${SLURM_JOB_ID:?this runs as a prolog or epilog of Slurm}
mount=${INTARSIA_MOUNTS:-/mnt}/intarsia-$job
data=${INTARSIA_TIER:-/var/lib/intarsia}/job-$job
# Slurm runs prologs and epilogs with next to no environment.
export PATH=${PATH:-/usr/sbin:/usr/bin:/sbin:/bin} HOME=${HOME:-/root}
export INTARSIA_RUNTIME_DIR=${INTARSIA_RUNTIME_DIR:-/run/intarsia}

# Whether the job asked for a store. Constraints are joined by & | , and may stand in brackets.
wants_store() {
  local words=${SLURM_JOB_CONSTRAINTS:-}
  case " ${words//[&|,\[\]()*]/ } " in *" $feature "*) return 0 ;; esac
  return 1
}
