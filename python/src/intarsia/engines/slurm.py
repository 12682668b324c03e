"""Has a job of Slurm prefer the nodes that hold most bytes of its input.

As part of a command: `sbatch $(python -m intarsia.engines.slurm reads/*.fq) job.sh`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from intarsia.locate import locate

_EXAMPLES = """\
Nothing is printed where no host holds any of the bytes, so that the job runs anywhere. Slurm goes
by features of nodes: in slurm.conf each needs its own name as one, as in NodeName=n1 Feature=n1.

Examples:
  sbatch $(python -m intarsia.engines.slurm reads/*.fq) align.sh           --prefer=n3
  sbatch -N2 $(python -m intarsia.engines.slurm --nodes 2 tiles) sum.sh    --prefer=n3|n1
  srun $(python -m intarsia.engines.slurm --form nodelist x.db) ls         --nodelist=n3

Exit codes:
  0  printed, or there is nothing to prefer
  1  a file is not there, or in no store; nothing is printed"""


def preferred(paths: Iterable[str | os.PathLike[str]], nodes: int = 1) -> tuple[str, ...]:
    """Return the hosts that hold most bytes of files, the one with most first, at most `nodes`.

    A directory stands for all files below it. Raises FileNotFoundError, naming the first, for what
    is not there or in no store.
    """
    found = locate(_files(paths))
    if found.unknown:
        first = found.unknown[0]
        raise FileNotFoundError(f"{first.path}: {first.problem}")
    return tuple(host for host, held in found.bytes_by_host.items() if held)[:nodes]


def option(hosts: Sequence[str], form: str = "prefer") -> str:
    """Return hosts as an option of `sbatch` and `srun`; without hosts nothing.

    >>> option(["n3", "n1"]), option(["n3", "n1"], "nodelist"), option([])
    ('--prefer=n3|n1', '--nodelist=n3,n1', '')
    """
    if not hosts:
        return ""
    return f"--{form}={('|' if form == 'prefer' else ',').join(hosts)}"


def main(words: Sequence[str] | None = None) -> int:
    """Print the option for files; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m intarsia.engines.slurm",
        description="Print the option with which a job of Slurm runs beside its input.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="files and directories of a store")
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="of the job [default: 1]")
    parser.add_argument(
        "--form",
        choices=("prefer", "nodelist"),
        default="prefer",
        help="prefer: these nodes if they are free; nodelist: these alone [default: prefer]",
    )
    given = parser.parse_args(words)
    try:
        said = option(preferred(given.files, given.nodes), given.form)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if said:
        print(said)
    return 0


def _files(paths: Iterable[str | os.PathLike[str]]) -> Iterator[str]:
    for path in map(Path, paths):
        if path.is_dir():
            yield from (str(one) for one in path.rglob("*") if one.is_file())
        else:
            yield str(path)


if __name__ == "__main__":
    sys.exit(main())
