"""`python -m intarsia.advice`: what `intarsia advise --report` and `--search` start."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from intarsia.advice.ask import AdviceError, Program, locate
from intarsia.advice.choices import searched
from intarsia.advice.page import report_of, seconds_of, uncertainty_of, words_of
from intarsia.advice.sensitivity import effects
from intarsia.simulate.report.write import write_report

EXIT_FAILURE, EXIT_USAGE = 1, 2


def main(words: Sequence[str] | None = None) -> int:
    """Write the page, and print the recommendation; returns the exit code of `advise`."""
    all_words = list(sys.argv[1:] if words is None else words)
    given, rest = _parser().parse_known_args(all_words)
    if str(given.workload) == "-":
        print("error: the workload is read several times: name a file", file=sys.stderr)
        return EXIT_USAGE
    command = shlex.join(["intarsia", "advise", *all_words])
    try:
        program = Program(locate(), given.workload, given.profile, given.seed, given.ignore_hints)
        words = _passed(given, rest)
        if given.search:
            advice, code = searched(program, given, words, _say)
        else:
            advice, code = program.advise([*words, "--json"])
        page = None
        if given.report:
            page = write_report(_report(program, advice, command), given.report)
    except AdviceError as error:
        print(error, file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"error: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return EXIT_FAILURE
    if given.json:
        print(json.dumps(advice, indent=1))
    else:
        print("\n".join(_told(advice)))
    if page is not None:
        _say(f"page: {page}")
    return code


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    """What is needed here; the program itself has checked the command line, and reads the rest."""
    made = argparse.ArgumentParser(prog="intarsia advise", add_help=False, allow_abbrev=False)
    made.add_argument("workload", type=Path)
    made.add_argument("--profile", type=Path, required=True)
    made.add_argument("--report", type=Path)
    made.add_argument("--search", type=int)
    made.add_argument("--dask")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--ignore-hints", action="store_true")
    made.add_argument("--json", action="store_true")
    return made


def _passed(given: argparse.Namespace, rest: Sequence[str]) -> list[str]:
    words = [str(given.workload), "--profile", str(given.profile), "--seed", str(given.seed)]
    words += ["--ignore-hints"] if given.ignore_hints else []
    return [*words, *rest]


def _report(program: Program, advice: dict[str, Any], command: str) -> Any:
    profile = json.loads(program.profile.read_text(encoding="utf-8"))
    points = advice["points"]
    best = points[advice["best"]]["configuration"]
    same = {advice["best"], *advice["undecided"]}
    others = [point for place, point in enumerate(points) if place not in same]
    runner_up = others[0]["configuration"] if others else None
    with tempfile.TemporaryDirectory(prefix="intarsia-advice-") as scratch:
        answer = program.predict(best, Path(scratch), None)
        found = effects(program, profile, best, runner_up, Path(scratch))
    return report_of(advice, answer, found, profile, command)


def _told(advice: dict[str, Any]) -> list[str]:
    best = advice["points"][advice["best"]]
    reasons = [f"  {reason}" for reason in advice["reasons"]]
    recommended = f"Recommended: {words_of(best['configuration'])}, {seconds_of(best)}"
    return [recommended, uncertainty_of(advice), "", "Why", *reasons]


if __name__ == "__main__":
    sys.exit(main())
