"""`forecast-dedup sample`: the ratio of data of which only a part is read."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.dedup.chunkers import Chunker, Kind
from intarsia.dedup.classes import Classifier
from intarsia.dedup.commands.common import (
    add_output,
    add_parser,
    percent,
    print_json,
    share,
)
from intarsia.dedup.errors import DedupError
from intarsia.dedup.inputs import is_list, read_backup, sample_backup
from intarsia.dedup.trace import Trace
from intarsia.dedup.unseen import Estimate, estimate, estimate_counts

_EXAMPLES = """\
examples:
  intarsia forecast-dedup sample /data --share 5%
  intarsia forecast-dedup sample monday.fp --share 0.15 --seed 7 --json

A directory is cut into fixed segments, because where content-defined ones end is known only when
all is read. A list is sampled as it was cut.
"""


def describe(commands: Any) -> None:
    """Describe the command line."""
    parser = add_parser(
        commands,
        "sample",
        run,
        help="estimate the ratio from a random sample",
        description="Read a random share of the segments and estimate how the whole would "
        "deduplicate. The interval is what can be stored by any population that fits the sample.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="a directory or a list")
    parser.add_argument(
        "--share", type=share, default=0.05, metavar="SHARE", help="of the segments (5%%)"
    )
    parser.add_argument(
        "--confidence", type=share, default=0.95, metavar="SHARE", help="of the interval (0.95)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the choice (1)")
    parser.add_argument(
        "--chunker", default="fixed", metavar="KIND", help="fixed[:SIZE], for a directory (fixed)"
    )
    add_output(parser)


def run(chosen: argparse.Namespace) -> None:
    """Sample, estimate and print."""
    trace, segments, total = _sample(chosen)
    classifier = Classifier()
    classifier.add(trace.ids, trace.sizes)
    seen = classifier.occurrences
    counts = estimate_counts(seen, chosen.share, segments, chosen.confidence)
    weighed = estimate(seen, classifier.sizes, chosen.share, float(total), chosen.confidence)
    if chosen.json:
        print_json(
            {
                "segments": {**asdict(counts), "total": segments},
                "bytes": {**asdict(weighed), "total": total, "sampled": trace.bytes},
            }
        )
        return
    print(f"{len(trace):,} of {segments:,} segments read ({percent(chosen.share)})")
    print(f"ratio by bytes     {_shown(weighed)}")
    print(f"ratio by segments  {_shown(counts)}")
    print(
        f"Within the sample alone it is {percent(weighed.naive)}, which is too high: most "
        "duplicates are not in it."
    )
    if not (counts.sample_fits and weighed.sample_fits):
        print("Note: no population fits this sample well; take a larger share.")


def _shown(one: Estimate) -> str:
    interval = f"{percent(one.low)} to {percent(one.high)}"
    return f"{percent(one.ratio)}, {100 * one.confidence:g} % interval {interval}"


def _sample(chosen: argparse.Namespace) -> tuple[Trace, int, int]:
    path: Path = chosen.data
    if not path.exists():
        raise DedupError(f"{path} does not exist: give a directory or a list")
    chunker = Chunker.parse(chosen.chunker)
    if path.is_dir():
        if chunker.kind is not Kind.FIXED:
            raise DedupError(
                f"--chunker {chosen.chunker}: a directory is sampled in fixed segments; for others "
                "`scan` it and sample the list"
            )
        return sample_backup(path, chunker.average, chosen.share, chosen.seed)
    if not is_list(path):
        raise DedupError(f"{path}: a tar cannot be sampled without reading it: `scan` it first")
    whole = read_backup(path, chunker)
    chosen_ones = np.random.default_rng(chosen.seed).random(len(whole)) < chosen.share
    return whole.where(chosen_ones), len(whole), whole.bytes
