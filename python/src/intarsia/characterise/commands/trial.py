"""`trial`: fifty balancing tests, scored on a truth that no method knows."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.characterise import commands as shared
from intarsia.characterise.balance import trial, verdict
from intarsia.characterise.balance.figure import latency_figure, reduction_figure
from intarsia.characterise.balance.knowledge import Knowledge, learn
from intarsia.characterise.balance.score import Score, as_json, from_json
from intarsia.characterise.errors import CharacteriseError
from intarsia.simulate.files import write_atomically
from intarsia.simulate.report.write import write_figure


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "trial",
        "try balancers on simulated stores, beside the published figures",
        "Put 8 to 14 usual loads on random stores, let Basil, Pesto, the published model and ours "
        "balance them, greedily and by annealing, and simulate what the loads see then. The table "
        "gives reductions with 95 % intervals over tests, beside the published ones.",
        "  python -m intarsia.characterise trial --out build/trial\n"
        "  python -m intarsia.characterise trial --pool mixed --oracle --out build/mixed\n",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="raw results, plots")
    parser.add_argument(
        "--pool", choices=trial.POOLS, default="published", help="the stores (published)"
    )
    parser.add_argument("--tests", type=shared.positive, default=50, help="(50)")
    parser.add_argument("--points", type=shared.positive, default=400, help="loads measured (400)")
    parser.add_argument("--deepest", type=shared.positive, default=3, help="outstanding, most (3)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (1)")
    parser.add_argument(
        "--oracle",
        action="store_true",
        help="also descend on the truth itself: what can be reached",
    )
    parser.add_argument(
        "--again", action="store_true", help="make tables and plots anew from the raw results"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Run the trial, or read it, and print."""
    raw = chosen.out / "scores.json"
    scores = _read(raw) if chosen.again else _run(chosen, raw)
    write_figure(reduction_figure(scores), chosen.out / "reductions")
    write_figure(latency_figure(scores), chosen.out / "latencies")
    if chosen.json:
        shared.print_json(
            {
                "verdicts": [asdict(one) for one in verdict.verdicts(scores)],
                **{
                    what: {
                        name: {label: asdict(one) for label, one in row.items()}
                        for name, row in verdict.table(scores, what).items()
                    }
                    for what in ("loads_ms", "stores_ms")
                },
            }
        )
        return
    _print(scores)


def _run(chosen: argparse.Namespace, raw: Path) -> dict[str, Score]:
    knowledge = _knowledge(chosen)
    scores = trial.run(
        knowledge,
        tests=chosen.tests,
        seed=chosen.seed,
        deepest=chosen.deepest,
        with_oracle=chosen.oracle,
        say=shared.say,
    )
    write_atomically(raw, as_json(scores).encode())
    return scores


def _knowledge(chosen: argparse.Namespace) -> Knowledge:
    return learn(trial.POOLS[chosen.pool], points=chosen.points, seed=chosen.seed, say=shared.say)


def _read(raw: Path) -> dict[str, Score]:
    try:
        return from_json(raw.read_text())
    except (ValueError, KeyError, TypeError) as error:
        raise CharacteriseError(f"{raw}: {error!r}: run the trial without --again") from None


def _print(scores: dict[str, Score]) -> None:
    for what, title in (("stores_ms", "latency of stores"), ("loads_ms", "latency of loads")):
        tests = len(scores["start"].moves)
        shared.console().print(f"{title}, {tests} tests: lower by (95 % interval)", style="bold")
        rows = [
            [
                name,
                *(f"{one.value:.0%} ({one.low:.0%}–{one.high:.0%})" for one in row.values()),
                f"{np.mean(scores[name].moves):.1f}",
            ]
            for name, row in verdict.table(scores, what).items()
        ]
        shared.print_table(["method", "mean", "variance", "maximum", "moves"], rows)
        shared.console().print()
    out = shared.console()
    for one in verdict.verdicts(scores):
        out.print(f"{one.verdict}: {one.what}", style="bold")
        out.print(f"  published {one.published}; here {one.ours}", soft_wrap=True)
        out.print(f"  {one.reason}", style="dim", soft_wrap=True)
