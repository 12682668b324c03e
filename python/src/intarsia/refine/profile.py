"""A profile, corrected by what runs took that were predicted with it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intarsia.refine.corrections import Correction, correction
from intarsia.refine.errors import KINDS, makespan_ratio

COMPARISON_FORMAT = "intarsia-comparison"


class RefineError(Exception):
    """Something cannot be used; the message names the file and the field, and the fix."""


def read_json(path: Path, form: str) -> dict[str, Any]:
    """Read a file of ours of version 1; raises RefineError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RefineError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise RefineError(f"{path}: is no JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != form:
        raise RefineError(f"{path}: field 'format' is not '{form}'")
    if document.get("version") != 1:
        raise RefineError(f"{path}: field 'version' is {document.get('version')!r}, 1 is known")
    return document


def base_of(profile: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the profile before its corrections, and the factors that are in force in it."""
    refinement = profile.get("measured", {}).get("refinement", {})
    factors = {kind: float(refinement.get("factors", {}).get(kind, 1.0)) for kind in KINDS}
    base = _scaled(profile, {kind: 1 / factor for kind, factor in factors.items()})
    base.get("measured", {}).pop("refinement", None)
    return base, factors


def refined(
    profile: Mapping[str, Any], comparisons: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Correction]]:
    """Return the profile with corrections, and these; what it was refined by before is kept.

    A comparison counts once, by its `id`. Raises RefineError for one of another profile.
    """
    base, _ = base_of(profile)
    before = profile.get("measured", {}).get("refinement", {}).get("runs", [])
    known = {run["id"]: run for run in before}
    for told in comparisons:
        if told["profile"]["name"] != base.get("name"):
            raise RefineError(
                f"run {told['id']}: was predicted with profile {told['profile']['name']!r}, "
                f"and this one is {base.get('name')!r}: refine that one"
            )
        known[told["id"]] = _kept(told)
    runs = [
        run
        | {"makespan_ratio": makespan_ratio(run, [one for one in known.values() if one is not run])}
        for run in known.values()
    ]
    found = {}
    for kind in KINDS:
        ratios = [run["ratios"][kind] for run in runs if kind in run["ratios"]]
        if (one := correction(ratios)) is not None:
            found[kind] = one
    made = _scaled(base, {kind: each.factor for kind, each in found.items()})
    made.setdefault("measured", {})["refinement"] = {
        "factors": {kind: each.factor for kind, each in found.items()},
        "corrections": {kind: asdict(each) for kind, each in found.items()},
        "covers": _covers(runs),
        "runs": runs,
    }
    return made, found


def _kept(one: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a comparison: its ratios to the profile before any corrections.

    And what was foretold, with which corrections in force, and what it took: in all, by stage and
    by kind of work.
    """
    ratios = {}
    for kind, pair in one["comparison"]["work"].items():
        if pair["predicted_s"] > 0:
            in_force = one["profile"]["factors"].get(kind, 1.0)
            ratios[kind] = in_force * pair["actual_s"] / pair["predicted_s"]
    keys = ("id", "ended_at", "host", "hosts", "tasks", "moved_bytes", "placement")
    keys_shown = ("makespan", "stages", "work", "unmatched")
    shown = {key: one["comparison"].get(key, []) for key in keys_shown}
    told = {"ratios": ratios, "in_force": one["profile"]["factors"], "compared": shown}
    return {key: one[key] for key in keys} | told


def _covers(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def span(key: str) -> list[int]:
        return [min(one[key] for one in runs), max(one[key] for one in runs)]

    return {
        "runs": len(runs),
        "hosts": span("hosts"),
        "tasks": span("tasks"),
        "moved_bytes": span("moved_bytes"),
        "placements": sorted({one["placement"] for one in runs}),
    }


def _scaled(profile: Mapping[str, Any], factors: Mapping[str, float]) -> dict[str, Any]:
    """Return a profile in which each kind of work takes so many times as long."""
    made: dict[str, Any] = copy.deepcopy(dict(profile))
    compute, io = factors.get("compute", 1.0), factors.get("io", 1.0)
    hosts = [made.get("host", {}), *made.get("unlike_hosts", [])]
    for number, host in enumerate(hosts):
        # One that has no speed of its own has that of the others.
        if compute != 1.0 and (number == 0 or "speed" in host):
            host["speed"] = host.get("speed", 1.0) / compute
    if io != 1.0:
        for part in (
            *hosts,
            made.get("network", {}),
            made.get("manager", {}),
            *made.get("tiers", []),
        ):
            _slow_down(part, io)
    return made


def _slow_down(part: dict[str, Any], factor: float) -> None:
    for name, value in part.items():
        if isinstance(value, dict) and "samples" not in value:
            _slow_down(value, factor)
        elif name.endswith("bytes_per_second"):
            part[name] = value / factor
        elif name.endswith("_seconds"):
            part[name] = _times(value, factor)


def _times(seconds: Any, factor: float) -> Any:
    if isinstance(seconds, dict):
        return {**seconds, "samples": [one * factor for one in seconds["samples"]]}
    return seconds * factor
