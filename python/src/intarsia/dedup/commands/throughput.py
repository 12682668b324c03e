"""`forecast-dedup throughput`: what a store with deduplication takes in, by a model of queues."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intarsia.dedup.commands.common import (
    BACKUP_HELP,
    add_parser,
    add_reading,
    percent,
    positive,
    print_json,
    print_table,
    read_all,
    share,
)
from intarsia.dedup.dictionary import Dictionary, DictionaryShape
from intarsia.dedup.errors import DedupError
from intarsia.dedup.pipeline import Machine, Mode, bounded, simulate
from intarsia.dedup.runs import profile
from intarsia.dedup.trace import Trace
from intarsia.dedup.units import parse_bytes, show_bytes

_EXAMPLES = """\
examples:
  intarsia forecast-dedup throughput week1.fp week2.fp week3.fp
  intarsia forecast-dedup throughput w1.fp w2.fp --network 1.2GB --store 400MB --buffer 64

Network, dictionary and store are three queues with exponential service. Long runs of new segments
make the queue at the store long: it lies between `rand` (new ones at random) and `all_miss`.
"""


def describe(commands: Any) -> None:
    """Describe the command line."""
    parser = add_parser(
        commands,
        "throughput",
        run,
        help="model the throughput and the queues of a store",
        description="Let backups flow through chunker, dictionary and content store.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("backups", nargs="+", type=Path, metavar="BACKUP", help=BACKUP_HELP)
    parser.add_argument(
        "--network", default="100MB", metavar="RATE", help="bytes a second that come in (100MB)"
    )
    parser.add_argument(
        "--store", default="50MB", metavar="RATE", help="bytes a second that are written (50MB)"
    )
    parser.add_argument(
        "--load", type=share, default=0.4, metavar="SHARE", help="of the network, for queues (0.4)"
    )
    parser.add_argument(
        "--buffer", type=positive, default=16, metavar="N", help="segments between stages (16)"
    )
    parser.add_argument(
        "--cache", type=positive, default=100_000, metavar="N", help="entries in memory (100000)"
    )
    parser.add_argument(
        "--bloom", type=positive, default=1_000_000, metavar="N", help="entries (1000000)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of service times (1)")
    add_reading(parser)


def run(chosen: argparse.Namespace) -> None:
    """Simulate each backup in order and print."""
    machine = Machine(network=_rate(chosen, "network"), store=_rate(chosen, "store"))
    traces = read_all(chosen.backups, chosen)
    dictionary = Dictionary(DictionaryShape(chosen.cache, bloom_entries=chosen.bloom))
    found = [_one(trace, dictionary, machine, chosen) for trace in traces]
    if chosen.json:
        print_json(found)
        return
    rows = [
        [
            Path(one["backup"]).name,
            percent(one["stored_share"]),
            show_bytes(one["throughput"]) + "/s",
            f"{one['runs']['content']['longest']:,}",
            *(f"{one['queues'][mode]['mean_queue']:.3g}" for mode in _SHOWN),
            percent(one["cache_hit_ratio"]),
        ]
        for one in found
    ]
    print_table(
        "Backups through the store",
        ["backup", "stored", "throughput", "longest run", *(f"queue {m}" for m in _SHOWN), "cache"],
        rows,
    )
    print(
        f"Throughput with room for {chosen.buffer} segments between stages; queues at the store "
        f"without bounds, with arrivals at {percent(chosen.load)} of the network."
    )


def _rate(chosen: argparse.Namespace, name: str) -> float:
    rate = parse_bytes(getattr(chosen, name))
    if not rate:
        raise DedupError(f"--{name} 0: give bytes a second above 0, as 100MB")
    return rate


_SHOWN = ("rand", "trace", "all_miss")


def _one(
    trace: Trace, dictionary: Dictionary, machine: Machine, chosen: argparse.Namespace
) -> dict[str, Any]:
    lookups = dictionary.look_up(trace.ids)
    flows = [
        simulate(trace.sizes, lookups, machine, mode=mode, load=chosen.load, seed=chosen.seed)
        for mode in Mode
    ]
    return {
        "backup": trace.name,
        "stored_share": float(lookups.is_stored.mean()),
        "throughput": bounded(
            trace.sizes, lookups, machine, buffer=chosen.buffer, seed=chosen.seed
        ),
        "runs": asdict(profile(lookups.is_stored)),
        "queues": {str(flow.mode): asdict(flow) for flow in flows},
        "cache_hit_ratio": lookups.cache_hit_ratio,
        "bloom_false_positive_ratio": lookups.false_positive_ratio,
        "bloom_fill": lookups.bloom_fill,
    }
