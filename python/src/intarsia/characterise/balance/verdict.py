"""What the trial found beside what was published, with a verdict on each figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from intarsia.characterise.balance.score import Reduction, Score, reductions
from intarsia.characterise.balance.trial import ORACLES

TARGETS = {"mean": 0.52, "variance": 0.82, "maximum": 0.78}
"""Published reductions, of the latencies of data stores."""
PUBLISHED_BASELINE = {"mean": 0.47, "variance": 0.37, "maximum": 0.21}
BASELINES = ("Basil", "Pesto", "random moves")
OURS = ("our model, greedy", "our plan")


@dataclass(frozen=True)
class Verdict:
    """One published figure and what became of it."""

    what: str
    published: str
    ours: str
    verdict: str
    reason: str


def table(scores: Mapping[str, Score], what: str) -> dict[str, dict[str, Reduction]]:
    """Return the reductions of every method, of `loads_ms` or `stores_ms`."""
    return {name: reductions(scores, name, what) for name in scores if name != "start"}


def verdicts(scores: Mapping[str, Score]) -> list[Verdict]:
    """Judge the published figures of balancing."""
    rows = table(scores, "stores_ms")
    found = [_target(label, rows) for label in TARGETS]
    for measure in ("loads_ms", "stores_ms"):
        found.append(_ahead(scores, measure))
    found.append(_ablation(scores))
    found.append(_moves(scores))
    return found


def _fall(reduction: float) -> str:
    """Write by how much a latency changes.

    >>> _fall(0.52), _fall(-0.1)
    ('-52%', '+10%')
    """
    return f"{-reduction:+.0%}"


def _target(label: str, rows: Mapping[str, Mapping[str, Reduction]]) -> Verdict:
    ours = rows["our model, greedy"][label]
    wanted = TARGETS[label]
    text = f"{_fall(ours.value)} ({_fall(ours.low)} to {_fall(ours.high)})"
    if ours.high >= wanted:
        verdict, reason = "reproduced", "the published figure is below or in our 95 % interval"
    elif asked := [name for name in ORACLES if name in rows]:
        best = max(asked, key=lambda name: rows[name][label].value)
        reach = rows[best][label]
        verdict = "not possible here" if reach.value < wanted else "refuted"
        reason = (
            "greedy moves that ask the truth itself, and lower the published objective, the mean "
            f"or the maximum, reach {_fall(reach.value)} ({_fall(reach.low)} to "
            f"{_fall(reach.high)}) at best on these stores ({best})"
        )
    else:
        verdict, reason = "refuted", "the published figure is above our 95 % interval"
    return Verdict(f"{label} latency of stores", _fall(wanted), text, verdict, reason)


def _ahead(scores: Mapping[str, Score], measure: str) -> Verdict:
    rows = table(scores, measure)
    ours = {label: rows["our model, greedy"][label].value for label in TARGETS}
    best = {label: max(rows[name][label].value for name in BASELINES) for label in TARGETS}
    behind = [label for label in TARGETS if ours[label] <= best[label]]
    return Verdict(
        f"ours ahead of Basil, Pesto and random ({measure.removesuffix('_ms')})",
        "ahead",
        ", ".join(
            f"{label} {_fall(ours[label])} against {_fall(best[label])}" for label in TARGETS
        ),
        "reproduced" if not behind else "refuted",
        "each against the best of the three" if not behind else f"behind in {', '.join(behind)}",
    )


def _ablation(scores: Mapping[str, Score]) -> Verdict:
    rows = table(scores, "stores_ms")

    def mean(model: str, search: str) -> float:
        return rows[f"{model}, {search}"]["mean"].value

    models = ("constant slope", "published model", "our model")
    by_model = [mean(one, "greedy") for one in models]
    gain_of_search = np.mean([mean(one, "annealing") - mean(one, "greedy") for one in models])
    gain_of_model = by_model[-1] - by_model[0]
    return Verdict(
        "the gain comes from annealing as well as from the model",
        "implied",
        f"a better model: {gain_of_model:+.0%} of the mean; annealing instead of greedy moves: "
        f"{gain_of_search:+.0%}",
        "refuted" if gain_of_search < 0.5 * gain_of_model else "reproduced",
        "mean reduction of the stores' latency; 200 steps of annealing make more moves",
    )


def _moves(scores: Mapping[str, Score]) -> Verdict:
    ours = float(np.mean(scores["our plan, 80 % sure"].moves))
    theirs = float(np.mean(scores["Basil"].moves))
    return Verdict(
        "moves of a test, the plan and Basil",
        "2.6 and 2.2",
        f"{ours:.1f} and {theirs:.1f}",
        "reproduced" if abs(ours - 2.6) <= 1 and abs(theirs - 2.2) <= 1 else "refuted",
        "tolerance: one move",
    )
