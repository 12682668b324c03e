"""The slips of the published text, as printed and corrected, with the figures that each gives."""

from __future__ import annotations

import numpy as np
import pandas as pd

from intarsia.dedup.classes import observe
from intarsia.dedup.corpora.traces import make_traces
from intarsia.dedup.dictionary import Dictionary, DictionaryShape
from intarsia.dedup.forecast import Method, rates
from intarsia.dedup.pipeline import Machine, Mode, decisions, simulate
from intarsia.dedup.regression import fit_line
from intarsia.dedup.study.published import BY_NAME, DATA_SETS, profile

_POSITIONS = 8_000


def errata_frame(chunkers: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Compute both readings of each slip."""
    rows = [_hit_is_ratio(seed), _mean_segment(chunkers), _bloom_entries(seed)]
    rows += [_first_transition(seed), _bgr_lowers_ratio(seed), _mean_run()]
    columns = ["slip", "what", "printed", "corrected", "switch"]
    return pd.DataFrame(rows, columns=columns)


def _hit_is_ratio(seed: int) -> tuple[str, ...]:
    backup = make_traces(profile("fredvar"), seed, _POSITIONS)[:2]
    dictionary = Dictionary()
    dictionary.look_up(backup[0].ids)
    lookups = dictionary.look_up(backup[1].ids)
    shares = [
        float(decisions(lookups.is_stored, Mode.RANDOM, seed, printed).mean())
        for printed in (True, False)
    ]
    flows = [
        simulate(
            backup[1].sizes, lookups, Machine(), mode=Mode.RANDOM, load=0.4, hit_is_ratio=printed
        ).mean_queue
        for printed in (True, False)
    ]
    return (
        "F15",
        "The chance of a hit equals the ratio (fredvar, second full)",
        f"{shares[0]:.1%} of the segments go to the store, queue {flows[0]:.3g}",
        f"{shares[1]:.1%}, queue {flows[1]:.3g}",
        "`simulate(hit_is_ratio=True)`",
    )


def _mean_segment(chunkers: pd.DataFrame) -> tuple[str, ...]:
    of_cdc = chunkers[chunkers["chunker"].str.startswith("fastcdc")].iloc[0]
    counted = np.mean([25e9 / row.segments for row in DATA_SETS]) / 1e3
    return (
        "F16",
        "Mean segment of 8 KB for bounds of 4 and 16 KB",
        "8 kB",
        f"{counted:.1f} kB by the published counts; {of_cdc['mean_bytes'] / 1e3:.1f} kB by FastCDC "
        "with these bounds on random data",
        "the mean is measured, never assumed",
    )


def _bloom_entries(seed: int) -> tuple[str, ...]:
    backup = make_traces(profile("workstation"), seed, _POSITIONS)[:2]
    found = []
    for bits in (1, 8):
        # In proportion to the published million entries for 1.97 million segments.
        entries = round(1e6 * 2 * _POSITIONS / (BY_NAME["workstation"].segments * 2 / 5))
        dictionary = Dictionary(DictionaryShape(bloom_entries=entries, bits_per_entry=bits))
        dictionary.look_up(backup[0].ids)
        found.append(dictionary.look_up(backup[1].ids))
    return (
        "7.2",
        "A Bloom filter of a million “entries” after two fulls",
        f"read as bits: {found[0].bloom_fill:.0%} are set, {found[0].false_positive_ratio:.1%} of "
        "new segments are taken for known",
        f"8 bits an entry: {found[1].bloom_fill:.0%}, {found[1].false_positive_ratio:.2%}",
        "`DictionaryShape(bits_per_entry=1)`",
    )


def _first_transition(seed: int) -> tuple[str, ...]:
    series = observe(make_traces(profile("workstation"), seed, _POSITIONS)).counts.until(3)
    printed, corrected = rates(series, Method.PRINTED), rates(series, Method.CORRECTED)
    return (
        "F17",
        "bgr averaged over all transitions (workstation, three fulls)",
        f"bgr {printed.bgr:.3f}, usr {printed.usr:.3f}",
        f"bgr {corrected.bgr:.3f}, usr {corrected.usr:.3f} (published: about 0.01 and 0.26)",
        "`Method.PRINTED`, `Method.CORRECTED`",
    )


def _bgr_lowers_ratio(seed: int) -> tuple[str, ...]:
    series = observe(make_traces(profile("exchange_is"), seed, _POSITIONS)).counts
    gaps = [
        after.stored - before.stored - step.usr * step.full
        for before, after, step in zip(
            series.states, series.states[1:], series.transitions, strict=False
        )
    ]
    return (
        "F18",
        "A positive bgr makes storage grow slower",
        "stored depends on bgr",
        f"stored grows by usr × full whatever bgr is: largest gap {max(map(abs, gaps)):.1g} "
        "segments",
        "an identity; tested",
    )


def _mean_run() -> tuple[str, ...]:
    line = fit_line([row.mean_run for row in DATA_SETS], [row.deviation for row in DATA_SETS])
    return (
        "F19",
        "r² of mean run length and deviation",
        "0.002",
        f"{line.r**2:.3f} from the published table",
        "computed from the table",
    )
