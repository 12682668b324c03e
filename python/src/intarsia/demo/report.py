"""What a demonstration found, as text for people and as JSON for programs."""

from __future__ import annotations

from typing import Any

from intarsia.demo.session import Outcome
from intarsia.demo.trial import NATIVE, STORE, median_seconds, median_stages

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(count: float) -> str:
    """Write a number of bytes as a person would."""
    for unit in _UNITS:
        if abs(count) < 1024 or unit == _UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("the last unit takes everything")


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as plain data."""
    native, store = (median_seconds(outcome.trials, place) for place in (NATIVE, STORE))
    return {
        "workflow": outcome.workflow,
        "size": outcome.size,
        # Runs that differ end the demonstration, so only a lone run has nothing to say here.
        "identical": True if len(outcome.trials) > 1 else None,
        "results_compared": len(outcome.trials[0].results),
        "files": outcome.tree.files if outcome.tree else None,
        "logical_bytes": outcome.tree.logical_bytes if outcome.tree else None,
        "native_median_s": native,
        "store_median_s": store,
        "store_over_native": store / native if native and store else None,
        "runs": [
            {
                "place": trial.place,
                "seconds": trial.seconds,
                "programs_cpu_s": trial.cpu_seconds,
                "stages": {stage.name: stage.seconds for stage in trial.stages},
            }
            for trial in outcome.trials
        ],
        "requests_per_run": outcome.requests,
        "store": outcome.status,
        "largest_file": outcome.location,
        "picture": str(outcome.picture) if outcome.picture else None,
        "kept": str(outcome.kept) if outcome.kept else None,
    }


def as_text(outcome: Outcome) -> str:
    """Return the outcome as a page to read."""
    lines = [
        f"{outcome.workflow} ({outcome.size})",
        f"  result      {_verdict(outcome)}",
    ]
    if outcome.tree:
        tree = outcome.tree
        lines.append(f"  one run     {tree.files} files, {size(tree.logical_bytes)}")
    lines += _store_lines(outcome) + _time_lines(outcome)
    if outcome.picture:
        lines.append(f"  picture     {outcome.picture}")
    lines.append(f"  cleaned up  {_cleaned(outcome)}")
    return "\n".join(lines)


def _verdict(outcome: Outcome) -> str:
    compared, runs = len(outcome.trials[0].results), len(outcome.trials)
    if runs == 1:
        return "one run only: nothing to compare it with"
    places = " and ".join(sorted({trial.place for trial in outcome.trials}))
    return f"{compared} files bit-identical in all {runs} runs ({places})"


def _cleaned(outcome: Outcome) -> str:
    if outcome.kept:
        return f"no: kept {outcome.kept}, as asked"
    if outcome.status is None:
        return "yes: no files left"
    return "yes: no mount, no process, no files left"


def _store_lines(outcome: Outcome) -> list[str]:
    status = outcome.status
    if status is None:
        return ["  store       not used (--native-only): runs compared with each other only"]
    passthrough = status.get("passthrough", {})
    mode = "in force" if passthrough.get("in_force") else "not in force"
    reason = passthrough.get("reason")
    lines = [
        f"  store       node {status.get('node')}, durability {status.get('durability')}",
        f"  passthrough {mode}" + (f": {reason}" if reason else ""),
    ]
    for tier in status.get("tiers", []):
        used = size(tier.get("used_bytes", 0))
        lines.append(f"  tier        {tier.get('dir')} ({tier.get('class')}): {used} used")
    opens = [status.get(f"opens_{how}") for how in ("passthrough", "cached")]
    if None not in opens:
        lines.append(f"  opens       {opens[0]} passed through, {opens[1]} served by the node")
    for place in outcome.location or []:
        name = "/".join(str(place.get("file")).rsplit("/", 2)[1:])
        lines.append(f"  location    {name}: node {','.join(place.get('nodes', []))}")
    if outcome.requests is not None:
        lines.append(f"  requests    {outcome.requests} kernel requests a run, removal included")
    return lines


def _time_lines(outcome: Outcome) -> list[str]:
    native, store = (median_seconds(outcome.trials, place) for place in (NATIVE, STORE))
    if native is None:
        return []
    runs = sum(trial.place == NATIVE for trial in outcome.trials)
    note = f"median of {runs}, order alternated, caches as found"
    if store is None:
        return [f"  time        native {native:.2f} s ({note})"]
    ratio = f"{store / native:.2f} times native"
    lines = [f"  time        native {native:.2f} s, store {store:.2f} s: {ratio} ({note})"]
    pairs = zip(
        median_stages(outcome.trials, NATIVE), median_stages(outcome.trials, STORE), strict=True
    )
    lines += [
        f"    {one.name:<14}{one.tasks:>3} tasks  native {one.seconds:7.3f} s"
        f"  store {other.seconds:7.3f} s"
        for one, other in pairs
    ]
    return lines
