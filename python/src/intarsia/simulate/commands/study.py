"""`intarsia simulate study`: run the points of a study, keep the results, write the report."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from intarsia.simulate import binary
from intarsia.simulate.binary import SimulationError
from intarsia.simulate.commands.report import write
from intarsia.simulate.studies import BUILT_IN
from intarsia.simulate.study.definition import Definition
from intarsia.simulate.study.frame import results_frame
from intarsia.simulate.study.outcome import Outcome
from intarsia.simulate.study.point import Point
from intarsia.simulate.study.run import run_points
from intarsia.simulate.study.store import PointStore
from intarsia.simulate.study.user import UserStudy


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    listed = "\n".join(f"  {study.name:11}{study.summary}" for study in BUILT_IN.values())
    parser = commands.add_parser(
        "study",
        help="run a sweep, or a study that comes with the program",
        description="Simulate every point of a study on all cores, or on a Dask cluster, and write "
        "tables, figures and an HTML report. An interrupted study goes on where it was: give the "
        "same command again.",
        epilog=f"studies that come with the program:\n{listed}\n\nexamples:\n"
        "  intarsia simulate study rxsim --out build/rxsim --quick\n"
        "  intarsia simulate study my-study.toml --out build/mine --scheduler tcp://login1:8786\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("study", metavar="NAME|FILE.toml")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="where results go")
    parser.add_argument("--quick", action="store_true", help="few and short points: the shape")
    parser.add_argument("--scheduler", metavar="URL", help="a Dask scheduler, such as tcp://a:8786")
    parser.add_argument(
        "--workers",
        type=_positive,
        metavar="N",
        help="points at a time on this machine (the cores)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Run the study."""
    user, points = _resolve(chosen.study, chosen.quick)
    envelopes = run_points(
        points,
        PointStore(chosen.out / "points"),
        title=user.name if user else chosen.study,
        scheduler=chosen.scheduler,
        workers=chosen.workers,
        quiet=chosen.quiet,
    )
    frame = results_frame(points, envelopes)
    outcome = Outcome(
        name=user.name if user else chosen.study,
        is_quick=chosen.quick,
        binary=binary.locate().identity,
        frame=frame,
        units=frame.attrs["units"],
        user=user,
    )
    outcome.write(chosen.out)
    page = write(outcome, chosen.out)
    if chosen.json:
        print(json.dumps({"study": outcome.name, "points": len(points), "report": str(page)}))
    else:
        print(page)


def _resolve(study: str, is_quick: bool) -> tuple[UserStudy | None, list[Point]]:
    if study in BUILT_IN:
        return None, BUILT_IN[study].points(is_quick)
    if not study.endswith(".toml"):
        raise SimulationError(
            f"there is no study {study!r}; there are {', '.join(BUILT_IN)}, or name a file that "
            "ends in .toml"
        )
    definition = Definition.read(Path(study))
    return definition.study, definition.points


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
