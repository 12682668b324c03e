"""`python -m intarsia.seed`: what `intarsia seed` starts."""

from __future__ import annotations

import argparse
import json
import platform
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from intarsia.seed.closure import closure
from intarsia.seed.compute import processors
from intarsia.seed.errors import SeedError
from intarsia.seed.names import host_names
from intarsia.seed.probe import MIB
from intarsia.seed.profile import MOST_SLOTS, Made, profile_of
from intarsia.seed.remote import Remote
from intarsia.seed.rounds import Measurement, Plan, measure
from intarsia.simulate.files import write_atomically

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130

_DESCRIPTION = """\
Measure a directory, or a store that is mounted there, as a black box: no root, no help of the
store. What is found goes into a profile, which `intarsia predict` and `intarsia advise` read.

Rounds of new files, reads and names go on until the 95 % interval of every mean is within the
precision, or time is up; what is not known well enough by then is named. What the directory does
of its own accord (files kept in memory, reading ahead, buffered writes) is found from the times.
All files of the measurement lie in one directory, which is removed at the end.
"""
_EXAMPLES = """\
Examples:
  intarsia seed /mnt/work --out work.json
  intarsia seed /mnt/work --remote /mnt/work --through 'ssh node02' --hosts 16 --out cluster.json
  intarsia seed /mnt/work --remote /mnt/work --through 'ssh node02' --through 'ssh node03'
  intarsia seed /tmp/demo/mnt-n1 --remote /tmp/demo/mnt-n2 --hosts 8 --out lab.json   a lab's hosts
  intarsia seed /scratch --check                                   how much the profile's form loses
  intarsia seed /scratch --hosts 8 --link 125e6 --seconds 20       links of 1 Gb/s, assumed

Exit codes:
  0  measured; what is not known well enough is a warning
  1  the directory cannot be measured
  2  the command line is wrong
  130, 143  interrupted; nothing is left behind"""

_CLOSED = ("predicted", "measured")
_PLACED = {
    "local": "on the host that writes",
    "spread": "each on one of the hosts, whoever writes",
    "central": "all on one host",
}
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="intarsia seed",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("directory", metavar="DIR", type=Path, help="what is measured")
    add(
        "--remote",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="the same directory as another host sees it, or through another mount point here; "
        "once for each host",
    )
    add(
        "--through",
        metavar="CMD",
        type=shlex.split,
        action="append",
        default=[],
        help="what runs a program on that host: 'ssh node02', "
        "'intarsia lab exec --lab demo n2 --'; it needs python3 there, and nothing else. Once for "
        "each host; one --remote is enough where all have the directory under the same path",
    )
    add(
        "--hosts",
        metavar="N",
        type=_count,
        help="hosts of the profile [default: those that are measured]",
    )
    add("--link", metavar="B/S", type=_rate, help="rate of links, assumed where none is measured")
    add("--slots", metavar="N", type=_count, help="tasks at once on a host [default: its cores]")
    add("--class", dest="tier_class", choices=("memory", "ssd", "disk"), help="of the medium")
    add("--seconds", metavar="S", type=_rate, default=60.0, help="at most [default: 60]")
    add(
        "--precision",
        metavar="X",
        type=_rate,
        default=0.05,
        help="half of the 95 %% interval, as a share of the mean, that is good enough "
        "[default: 0.05]",
    )
    add(
        "--as-loaded",
        action="store_true",
        help="count calls too during which other programs took the processor: for predictions of "
        "runs beside the same load",
    )
    add("--size", metavar="SIZE", type=_size, help="largest file [default: as fits the rate]")
    add(
        "--power",
        metavar="FILE",
        type=Path,
        help="what the host draws, as JSON, from a data sheet or a meter [default: measured by "
        "RAPL where the kernel lets it be read]",
    )
    add(
        "--check",
        action="store_true",
        help="predict the measurement itself from the profile, and say how far that is off",
    )
    add("--name", metavar="NAME", help="of the profile [default: HOST:DIR]")
    add("--out", metavar="FILE", type=Path, help="where the profile goes [default: printed]")
    add("--json", action="store_true", help="print the profile as well where --out is given")
    add("--quiet", action="store_true", help="say nothing on standard error but warnings")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Measure; returns the exit code."""
    given = parser().parse_args(words)
    _check(given)
    command = ["intarsia", "seed", *(sys.argv[1:] if words is None else words)]
    before = signal.signal(signal.SIGTERM, _end)
    try:
        plan = _plan(given)
        found = measure(plan, (lambda _: None) if given.quiet else _say)
        profile = profile_of(found, plan, _made(given, command))
        if given.check:
            profile["measured"]["closure"] = closure(profile, found)
        _tell(given, plan, found, profile)
    except SeedError as error:
        _say(f"error: {error}")
        return EXIT_FAILURE
    except OSError as error:
        _say(f"error: {error.filename or 'output'}: {error.strerror}")
        return EXIT_FAILURE
    except KeyboardInterrupt:
        _say("interrupted; nothing was written")
        return EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _end(number: int, _frame: object) -> None:
    """End as after SIGINT, with clearing up, but with the exit code of this signal."""
    raise SystemExit(128 + number)


def _check(given: argparse.Namespace) -> None:
    if given.through and not given.remote:
        parser().error("--through: give --remote too, the directory on that host")
    if len(given.remote) > 1 and given.through and len(given.remote) != len(given.through):
        told = f"{len(given.remote)} of --remote and {len(given.through)} of --through"
        parser().error(f"{told}: give as many, or one --remote for all")
    measured = 1 + len(_remotes(given))
    if given.hosts and given.hosts < measured:
        parser().error(f"--hosts {given.hosts}: {measured} are measured; leave --hosts out")
    if not given.remote and (given.hosts or 1) > 1 and given.link is None:
        parser().error("--hosts: name another host with --remote, or assume its --link")
    if given.remote and given.link is not None:
        parser().error("--link: the link is measured with --remote; leave one out")


def _remotes(given: argparse.Namespace) -> tuple[Remote, ...]:
    """Return the other hosts: as many as --remote or --through, in the order of the command."""
    directories = given.remote
    if len(directories) == 1:
        directories = directories * max(1, len(given.through))
    through = given.through or [[]] * len(directories)
    return tuple(Remote(one, tuple(words)) for one, words in zip(directories, through, strict=True))


def _plan(given: argparse.Namespace) -> Plan:
    remote, *others = _remotes(given) or (None,)
    return Plan(
        given.directory,
        remote,
        tuple(others),
        given.seconds,
        given.precision,
        given.slots or min(MOST_SLOTS, processors()),
        given.size,
        given.as_loaded,
        given.power,
        given.slots is not None,
    )


def _made(given: argparse.Namespace, command: Sequence[str]) -> Made:
    return Made(
        given.name or f"{platform.node()}:{given.directory}",
        given.hosts or 1 + len(_remotes(given)),
        given.link,
        given.tier_class,
        command,
        host_names(given.directory),
    )


def _tell(
    given: argparse.Namespace, plan: Plan, found: Measurement, profile: dict[str, Any]
) -> None:
    text = json.dumps(profile, indent=1) + "\n"
    if given.out is not None:
        write_atomically(given.out, text.encode())
    if given.out is None or given.json:
        sys.stdout.write(text)
    elif not given.quiet:
        sys.stdout.write(summary(profile) + f"\nwritten to {given.out}\n")
    sys.stdout.flush()
    for name, share in found.imprecise(plan.precision).items():
        told = f"± {100 * share:.0f} %" if share < 1e6 else "no interval"
        _say(f"warning: {name}: {told} after {found.rounds} rounds, not {plan.precision:.0%}")


def summary(profile: dict[str, Any]) -> str:
    """Return what was found, for people."""
    measured = profile["measured"]
    lines = [f"{profile['provenance']['note']}, load {measured['load_average']:.1f}", ""]
    heads = ("call", "mean", "± 95 %", "p50", "p99", "calls")
    lines.append(f"{heads[0]:18}" + "".join(f"{head:>12}" for head in heads[1:]))
    for name, told in measured["seconds"].items():
        share = told["half_width_95"] / told["mean"] if told["mean"] else 0.0
        cells = (_micro(told["mean"]), f"{share:.1%}", _micro(told["p50"]), _micro(told["p99"]))
        row = "".join(f"{cell:>12}" for cell in (*cells, told["calls"]))
        lines.append(f"{_titled(name):18}{row}")
    lines += ["", "times in microseconds; `cold`: after the kernel was asked to forget; `far`:"]
    lines.append("on the other host; `anywhere`: at places of chance; `over`: over old bytes")
    share = measured["disturbed_share"]
    what = "were disturbed" if measured["as_loaded"] else "were left out"
    lines.append(f"{share:.1%} of the calls {what}: other programs took the processor")
    lines += ["", *(f"{one['name']}: {one['text']}" for one in measured["effects"])]
    lines += [_closed(one) for one in measured.get("closure", ())]
    lines += [_unlike(one) for one in profile.get("unlike_hosts", ())]
    if (shared := profile.get("shared_processors")) is not None:
        lines.append(f"all hosts are one machine: they share its {shared} processors")
    if f"far_{MIB}" in measured["seconds"]:
        lines.append(f"new files: {_PLACED[profile['placement']]}")
    return "\n".join(lines)


def _closed(part: dict[str, Any]) -> str:
    """Say how far a part of the measurement is foretold off."""
    predicted, took = (f"{part[f'{name}_seconds'] * 1e3:,.2f} ms" for name in _CLOSED)
    return f"check, {part['part']}: {predicted} foretold, {took} measured, {part['error']:+.1%}"


def _unlike(host: dict[str, Any]) -> str:
    """Say in what a host is not like the first ones."""
    said = ", ".join(f"{name} {value:,.4g}" for name, value in host.items() if name != "numbers")
    return f"host {host['numbers'][0]} is unlike the others: {said}"


def _titled(name: str) -> str:
    kind, _, size = name.rpartition("_")
    if not size.isdecimal() or kind.endswith("_by"):
        return name.replace("_", " ")
    bytes_of = int(size)
    return f"{kind} " + (f"{bytes_of >> 20} MiB" if bytes_of >> 20 else f"{bytes_of >> 10} KiB")


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _count(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r}: a whole number from 1 is expected")


def _rate(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if 0 < number < float("inf"):
        return number
    raise argparse.ArgumentTypeError(f"{text!r}: a number above 0 is expected")


def _size(text: str) -> int:
    """Return bytes, whole MiB, for texts such as 64MiB.

    >>> _size("64MiB"), _size("1g")
    (67108864, 999292928)
    """
    found = re.fullmatch(r"([0-9]+)([kmg]?i?)b?", text.lower())
    size = int(found[1]) * _UNITS.get(found[2], 0) >> 20 << 20 if found else 0
    if size:
        return size
    raise argparse.ArgumentTypeError(f"{text!r}: a size of 1 MiB or more is expected, as 64MiB")


if __name__ == "__main__":
    sys.exit(main())
