"""`intarsia run --refine`: a profile that each run corrects when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from intarsia.refine.profile import RefineError, base_of, read_json
from intarsia.refine.runs import PROFILE_FORMAT, refine_file
from intarsia.run.advised import Advised
from intarsia.run.graph import GraphError


def check_profile(path: Path, advised: Advised | None) -> None:
    """Refuse what a run could not correct when it has ended; raises GraphError."""
    try:
        name = base_of(read_json(path, PROFILE_FORMAT))[0].get("name")
    except RefineError as error:
        raise GraphError(str(path), [str(error).removeprefix(f"{path}: ")]) from None
    if advised is not None and advised.basis["profile"]["name"] != name:
        raise GraphError(
            str(path),
            [
                f"is the profile {name!r}, and the advice rests on "
                f"{advised.basis['profile']['name']!r}: name that one with --refine"
            ],
        )


def refine_by_run(path: Path, run_dir: Path, say: Callable[[str], None]) -> None:
    """Correct the profile by what the run left, in place; says what came of it."""
    try:
        done = refine_file(path, [run_dir], path)
    except RefineError as error:
        say(f"warning: {error}; {path} stays as it was")
        return
    except OSError as error:
        say(f"warning: {error.filename}: {error.strerror}; {path} stays as it was")
        return
    factors = [f"{kind} times {one.factor:.3f}" for kind, one in done.corrections.items()]
    if done.cost is not None:
        cost = done.cost
        factors += [f"engine {cost.task_s * 1e3:.2f} and {cost.start_s * 1e3:.2f} ms a task"]
    say(f"{path} is refined: {', '.join(factors) or 'nothing changes'}")
