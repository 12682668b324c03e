"""Raw samples of the study: tables of single measurements, from which all else is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from intarsia.dedup.advice import data_class, merge, parts
from intarsia.dedup.chunkers import Chunker
from intarsia.dedup.classes import observe
from intarsia.dedup.corpora.packages import fetch_releases
from intarsia.dedup.corpora.traces import FULLS, make_traces
from intarsia.dedup.corpora.trees import TREES, tree_traces
from intarsia.dedup.coverage import trials
from intarsia.dedup.dictionary import Dictionary, DictionaryShape, Lookups
from intarsia.dedup.errors import DedupError
from intarsia.dedup.forecast import (
    Method,
    forecast,
    naive_anchored,
    naive_rate,
    naive_ratio,
)
from intarsia.dedup.inputs import read_backup
from intarsia.dedup.pipeline import Machine, Mode, bounded, simulate
from intarsia.dedup.runs import profile as run_profile
from intarsia.dedup.study.published import BY_NAME, DATA_SETS, profile
from intarsia.dedup.trace import Trace, joined
from intarsia.simulate.files import write_atomically

Row = dict[str, Any]
Samples = dict[str, pd.DataFrame]

TRAINED = 3
LOAD = 0.4
BUFFER = 16


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    positions: int
    trace_seeds: int
    tree_seeds: int
    tree_scale: float
    cases: int
    case_segments: int
    stream_bytes: int
    arrivals: int


WHOLE = Size(40_000, 20, 10, 1.0, 200, 200_000, 16_000_000, 400_000)
QUICK = Size(6_000, 2, 1, 1.0, 24, 20_000, 2_000_000, 200_000)

# Releases one after the other, for those who ask for real histories: a framework, a database
# library, services described as data, an automation tool, models of which each release has more.
HISTORIES = {
    "django": tuple(f"django==4.2.{patch}" for patch in range(1, 8)),
    "sqlalchemy": tuple(f"sqlalchemy==2.0.{patch}" for patch in range(20, 27)),
    "botocore": tuple(f"botocore==1.34.{patch}" for patch in range(0, 70, 10)),
    "ansible-core": tuple(f"ansible-core==2.16.{patch}" for patch in range(1, 8)),
    "transformers": tuple(f"transformers==4.{minor}.0" for minor in range(36, 43)),
}


def measure(
    size: Size,
    seed: int,
    packages: Path | None,
    tell: Callable[[str], None],
    histories: Sequence[Path] = (),
) -> Samples:
    """Measure everything; `packages` is where releases are unpacked, if they are wanted.

    Each of `histories` is a directory of full backups, which are in order by their names.
    """
    makers: dict[str, Callable[[], Iterator[Row]]] = {
        "chunkers": lambda: _chunkers(size, seed),
        "compositions": lambda: _compositions(size, seed),
        "forecasts": lambda: _forecasts(size, seed, packages, histories),
        "flows": lambda: _flows(size, seed),
        "oracle": lambda: _oracle(size, seed),
        "merges": lambda: _merges(size, seed),
        "parts": lambda: _parts(size, seed),
        "coverage": lambda: _coverage(size, seed),
    }
    samples = {}
    for number, (name, rows) in enumerate(makers.items(), start=1):
        tell(f"{number} of {len(makers)}: {name}")
        samples[name] = pd.DataFrame(list(rows()))
    return samples


def write_samples(samples: Samples, directory: Path) -> None:
    """Write a CSV file a table."""
    for name, frame in samples.items():
        write_atomically(directory / f"{name}.csv", frame.to_csv(index=False).encode())


def read_samples(directory: Path) -> Samples:
    """Read what `write_samples` wrote."""
    names = [path.stem for path in sorted(directory.glob("*.csv"))]
    wanted = {"chunkers", "compositions", "forecasts", "flows", "oracle", "merges", "parts"}
    if missing := (wanted | {"coverage"}) - set(names):
        raise DedupError(f"{directory} lacks {', '.join(sorted(missing))}: run the study anew")
    return {name: pd.read_csv(directory / f"{name}.csv") for name in names}


def _chunkers(size: Size, seed: int) -> Iterator[Row]:
    """Cut random data, and the same with a few bytes put in front."""
    data = np.random.default_rng(seed).bytes(size.stream_bytes)
    for kind in ("fastcdc", "fixed:8KiB", "file"):
        chunker = Chunker.parse(kind)
        pairs = list(chunker.segments(io.BytesIO(data)))
        shifted = {pair[0] for pair in chunker.segments(io.BytesIO(b"new" + data))}
        lengths = [pair[1] for pair in pairs]
        yield {
            "chunker": str(chunker),
            "segments": len(pairs),
            "mean_bytes": float(np.mean(lengths)),
            "smallest": min(lengths),
            "largest": max(lengths),
            "found_after_shift": float(np.mean([pair[0] in shifted for pair in pairs])),
        }


def _compositions(size: Size, seed: int) -> Iterator[Row]:
    for row in DATA_SETS:
        series = observe(make_traces(profile(row.name), seed, size.positions)).counts
        for number, state in enumerate(series.states):
            step = series.transitions[number - 1] if number else None
            yield {
                "data_set": row.name,
                "fulls": number + 1,
                "full": series.fulls[number],
                **asdict(state),
                "ratio": state.ratio,
                "references": state.references,
                "usr": step.usr if step else None,
                "bgr": step.bgr if step else None,
                "changed": step.changed if step else None,
            }


def _forecasts(
    size: Size, seed: int, packages: Path | None, histories: Sequence[Path]
) -> Iterator[Row]:
    for row in DATA_SETS:
        for turn in range(size.trace_seeds):
            traces = make_traces(profile(row.name), seed + turn, size.positions)
            yield forecast_row("trace", row.name, seed + turn, traces)
    for tree in TREES:
        for turn in range(size.tree_seeds):
            traces = tree_traces(tree, seed + turn, Chunker(), FULLS, size.tree_scale)
            yield forecast_row("tree", tree, seed + turn, traces)
    if packages is not None:
        yield from _package_forecasts(packages)
    for history in histories:
        yield from history_forecasts(history)


def history_forecasts(history: Path) -> Iterator[Row]:
    """Take each run of five backups as five fulls."""
    backups = sorted(path for path in history.iterdir() if not path.name.startswith("."))
    if len(backups) < FULLS:
        raise DedupError(f"{history} holds {len(backups)} backups; a history needs {FULLS}")
    traces = [read_backup(path, Chunker()) for path in backups]
    for start in range(len(traces) - FULLS + 1):
        yield forecast_row("package", history.name, start, traces[start : start + FULLS])


def _package_forecasts(packages: Path) -> Iterator[Row]:
    """Take each run of five releases as five fulls; then all packages as one machine."""
    histories = {
        name: [read_backup(path, Chunker()) for path in fetch_releases(packages, releases)]
        for name, releases in HISTORIES.items()
    }
    together = zip(*histories.values(), strict=True)
    histories["all five"] = [joined(f"step-{n}", fulls) for n, fulls in enumerate(together)]
    for name, traces in histories.items():
        for start in range(len(traces) - FULLS + 1):
            yield forecast_row("package", name, start, traces[start : start + FULLS])


def forecast_row(kind: str, corpus: str, seed: int, traces: Sequence[Trace]) -> Row:
    """Train on the first three fulls, forecast to the last, and hold it against what came."""
    observed = observe(traces)
    series = observed.counts if kind == "trace" else observed.bytes
    known = series.until(TRAINED)
    ahead = len(series.fulls) - TRAINED
    points = {method: forecast(known, ahead, method).points for method in Method}
    ours = points[Method.INTARSIA][-1]
    kinds = data_class(series)
    return {
        "kind": kind,
        "corpus": corpus,
        "seed": seed,
        "truth": series.states[-1].ratio,
        "naive": naive_ratio(naive_rate(known), len(series.fulls)),
        "anchored": naive_anchored(known, ahead),
        **{str(method): found[-1].ratio for method, found in points.items()},
        "low": ours.ratio_low,
        "high": ours.ratio_high,
        "truth_next": series.states[TRAINED].ratio,
        "next": points[Method.INTARSIA][0].ratio,
        "within_first": series.within_first,
        "across": series.states[-1].duplicate / series.states[-1].logical,
        "base": str(kinds.base),
        "unique": str(kinds.unique),
    }


def _flows(size: Size, seed: int) -> Iterator[Row]:
    """Let the six data sets through the store, with caches in proportion to their size."""
    machine = Machine()
    for row in DATA_SETS:
        part = size.positions / (BY_NAME[row.name].segments / FULLS)
        shape = DictionaryShape(
            cache_entries=max(2048, round(100_000 * part)),
            neighbours=256,
            bloom_entries=max(1000, round(1_000_000 * part)),
        )
        dictionary = Dictionary(shape)
        traces = make_traces(profile(row.name), seed, size.positions)
        series = observe(traces).counts
        for number, trace in enumerate(traces):
            lookups = dictionary.look_up(trace.ids)
            runs = run_profile(lookups.is_stored)
            queues = {
                f"queue_{mode}": simulate(
                    trace.sizes, lookups, machine, mode=mode, load=LOAD, seed=seed
                ).mean_queue
                for mode in Mode
            }
            serial, piped = (
                bounded(trace.sizes, lookups, machine, buffer=room, seed=seed) / 1e6
                for room in (0, BUFFER)
            )
            yield {
                "data_set": row.name,
                "fulls": number + 1,
                "ratio": series.states[number].ratio,
                "stored_share": float(lookups.is_stored.mean()),
                "serial": serial,
                "piped": piped,
                **queues,
                "longest_content": runs.content.longest,
                "longest_duplicate": runs.duplicate.longest,
                "longest": runs.all.longest,
                "mean_run": runs.all.mean,
                "share_in_long": runs.all.share_in_long,
                "cache_hits": lookups.cache_hit_ratio,
                "bloom_false": lookups.false_positive_ratio,
                "bloom_fill": lookups.bloom_fill,
            }


def _oracle(size: Size, seed: int) -> Iterator[Row]:
    """Queues at the store when each segment goes there at random: M/M/1 by theory."""
    count = size.arrivals
    sizes = np.full(count, 13_000, np.int64)
    machine = Machine(memory_lookup=1e-9, index_lookup=0.0)
    for share in (0.2, 0.4, 0.6):
        random = np.random.default_rng([seed, round(100 * share)])
        stored = random.random(count) < share
        lookups = Lookups(stored, np.zeros(count, np.bool_), 1.0, 0.0, 0.0)
        for load in (0.5, 0.7):
            flow = simulate(sizes, lookups, machine, mode=Mode.RANDOM, load=load, seed=seed)
            busy = share * load * machine.network / machine.store
            yield {
                "share": share,
                "load": load,
                "busy": busy,
                "queue": flow.mean_queue,
                "theory": busy / (1 - busy),
            }


def _merges(size: Size, seed: int) -> Iterator[Row]:
    """Merge two data sets that share nothing, and two that share their photos."""
    one, other = (make_traces(profile(n), seed, size.positions) for n in ("exchange", "fredp4"))
    yield _merge_row("exchange + fredp4", one, other)
    first, second = (tree_traces(t, seed, Chunker(), FULLS, 0.3) for t in ("source", "mail"))
    yield _merge_row("source + mail", first, second)
    # A machine and its copy a week later share what did not change.
    yield _merge_row("source + its next full", first[:-1], first[1:])


def _merge_row(name: str, one: Sequence[Trace], other: Sequence[Trace]) -> Row:
    fulls = len(one)
    _, merged = merge(one[:TRAINED], other[:TRAINED], fulls - TRAINED)
    _, truth = merge(one, other, 1)
    return {
        "merge": name,
        "shared_share": merged.shared_share,
        "superposed_now": merged.superposed.ratio,
        "together_now": merged.together.ratio,
        "superposed": merged.superposed_ahead[-1].ratio,
        "together": merged.together_ahead[-1].ratio,
        "truth": truth.together.ratio,
    }


def _parts(size: Size, seed: int) -> Iterator[Row]:
    for tree in TREES:
        for part in parts(tree_traces(tree, seed, Chunker(), FULLS, size.tree_scale)):
            yield {"tree": tree, **asdict(part)}


def _coverage(size: Size, seed: int) -> Iterator[Row]:
    for trial in trials(size.cases, size.case_segments, seed):
        yield {**asdict(trial), "holds": trial.holds}
