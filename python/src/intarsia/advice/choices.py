"""A search from a command line: which choices there are, and the advice among what was found."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from intarsia.advice.ask import AdviceError, Program
from intarsia.advice.search import Predictor, Search, Space, goals_of
from intarsia.units import size_in_bytes

_EXIT_USAGE = 2


def searched(
    program: Program, given: argparse.Namespace, words: Sequence[str], say: Callable[[str], None]
) -> tuple[dict[str, Any], int]:
    """Search as the command line says; returns the advice, and the exit code of `advise`."""
    profile = json.loads(program.profile.read_text(encoding="utf-8"))
    choices, rest = _choices().parse_known_args([word for word in words if word != "--json"])
    space = space_of(profile, choices)
    weights = _weights(choices.weigh)
    passed = [*rest, *(["--weigh", choices.weigh] if choices.weigh else [])]
    predict = Predictor(program, tuple(passed), given.dask)
    # Input that cannot be read is refused here, with what the program says of it.
    predict.judged([{"hosts": space.hosts[-1]}], 1)
    goals = goals_of(weights, "power" in profile.get("host", {}))
    found = Search(space, goals, program.seed).run(given.search, predict, say)
    if not found:
        raise AdviceError("error: none of the configurations that were tried can be", _EXIT_USAGE)
    within = ["--within", choices.within] if choices.within else []
    judge = Predictor(program, (*passed, *within), None)
    return judge.judged_with_code(found, choices.runs)


def space_of(profile: Mapping[str, Any], choices: argparse.Namespace) -> Space:
    """Return what may be chosen: what the flags say, and all that can be where they say nothing.

    Frequencies are searched if the flags ask for them.
    """
    usual = Space(hosts=tuple(range(1, int(profile["hosts"]) + 1)))
    known = [int(one["mhz"]) for one in profile.get("host", {}).get("frequencies", [])]
    mhz: tuple[int | None, ...] = (None,)
    if choices.frequency:
        asked = choices.frequency.split(",")
        every = (None, *known) if "all" in asked else ()
        mhz = (*every, *(int(one) for one in asked if one != "all"))
    storage: tuple[int | None, ...] | None = None
    if choices.storage_hosts:
        words = choices.storage_hosts.split(",")
        storage = tuple(None if word == "all" else int(word) for word in words)
    return Space(
        hosts=_numbers(choices.hosts) or usual.hosts,
        placements=_words(choices.placement) or usual.placements,
        schedulers=_words(choices.scheduler) or usual.schedulers,
        chunk_bytes=tuple(size_in_bytes(one) for one in _words(choices.chunk)) or usual.chunk_bytes,
        copies=_numbers(choices.copies) or usual.copies,
        storage_hosts=storage,
        stripe_widths=_numbers(choices.stripe_width) or None,
        mhz=mhz,
        tiers=_words(choices.tier) or _tiers(profile),
    )


def _tiers(profile: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Return None, which is the fastest tier that has room, and each slower class.

    >>> _tiers({"tiers": [{"class": "disk"}, {"class": "memory"}]})
    (None, 'disk')
    """
    there = {tier["class"] for tier in profile.get("tiers", ())}
    classes = [one for one in ("memory", "ssd", "disk") if one in there]
    return (None, *classes[1:])


def _choices() -> argparse.ArgumentParser:
    """The flags that say what may be chosen; the program itself has checked them."""
    made = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("hosts", "storage-hosts", "placement", "chunk", "stripe-width", "copies"):
        made.add_argument(f"--{name}")
    made.add_argument("--scheduler")
    made.add_argument("--frequency")
    made.add_argument("--tier")
    made.add_argument("--weigh")
    made.add_argument("--within")
    made.add_argument("--top")
    made.add_argument("--runs", type=int, default=5)
    return made


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(sorted(int(word) for word in _words(text)))


def _weights(text: str | None) -> dict[str, float] | None:
    if text is None:
        return None
    pairs = (one.split("=") for one in text.split(","))
    return {name.strip(): float(weight) for name, weight in pairs}
