"""The report on an advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from intarsia.advice import figures
from intarsia.advice.held import held_section
from intarsia.advice.sensitivity import ASSUMED_SHARE, Effect
from intarsia.simulate.report.document import Plot, Report, Section, Table

_HOUR_S = 3600
_JOULES_PER_WH = 3600
_ROWS = 15


def report_of(
    advice: Mapping[str, Any],
    answer: Mapping[str, Any],
    effects: Sequence[Effect],
    profile: Mapping[str, Any],
    command: str,
) -> Report:
    """Return the page: `answer` is the prediction of what is recommended."""
    best = advice["points"][advice["best"]]
    workload = advice["basis"]["workload"]
    held = _held(profile, advice)
    return Report(
        f"Advice for {workload['name']}",
        _summary(advice, best, ", but for what runs took," if held else ""),
        (
            _choice(advice),
            _run(answer, best),
            *held,
            _rests_on(effects, answer, profile),
        ),
        made_with={
            "command": command,
            "program": f"intarsia {advice['basis']['version']}",
            "seed": str(answer["seed"]),
            "events": f"{advice['run']['events']:,}",
        },
    )


def _held(profile: Mapping[str, Any], advice: Mapping[str, Any]) -> tuple[Section, ...]:
    section = held_section(profile, advice.get("outside") or ())
    return (section,) if section else ()


def words_of(configuration: Mapping[str, Any]) -> str:
    """Return a configuration in words.

    >>> words_of({"hosts": 4, "storage_hosts": None, "placement": "local", "chunk_bytes": 1 << 20,
    ...           "copies": 1, "scheduler": "location", "stripe_width": 4})
    '4 hosts, all store, local, chunks of 1024 KiB, location'
    >>> words_of({"hosts": 1, "storage_hosts": None, "placement": "local", "chunk_bytes": 1 << 20,
    ...           "copies": 1, "scheduler": "local", "stripe_width": 4, "tier": "ssd",
    ...           "patterns": {"broadcast": {"pattern": "broadcast"}}})
    '1 host, local, chunks of 1024 KiB, tier ssd, broadcast files pattern=broadcast, local'
    """
    hosts, storage = configuration["hosts"], configuration["storage_hosts"]
    parts = [f"{hosts} host" + ("s" if hosts != 1 else "")]
    if storage:
        parts.append(f"{storage} of them for storage")
    elif hosts > 1:
        parts.append("all store")
    placement = configuration["placement"]
    wide = f" over {configuration['stripe_width']}" if placement == "round-robin" else ""
    parts += [placement + wide, f"chunks of {configuration['chunk_bytes'] >> 10} KiB"]
    if configuration["copies"] > 1:
        parts.append(f"{configuration['copies']} copies")
    if configuration.get("tier"):
        parts.append(f"tier {configuration['tier']}")
    for pattern, told in (configuration.get("patterns") or {}).items():
        hints = " ".join(f"{name}={value}" for name, value in told.items())
        parts.append(f"{pattern} files {hints}")
    parts.append(configuration["scheduler"])
    if configuration.get("frequency_mhz"):
        parts.append(f"{configuration['frequency_mhz']} MHz")
    if configuration.get("second_run_percent"):
        parts.append(f"second runs after {configuration['second_run_percent'] / 100:g} medians")
    return ", ".join(parts)


def _summary(advice: Mapping[str, Any], best: Mapping[str, Any], but_for: str) -> tuple[str, ...]:
    basis = advice["basis"]
    workload, profile = basis["workload"], basis["profile"]
    lines = [
        f"Recommended: {words_of(best['configuration'])}. "
        f"It is predicted to take {seconds_of(best)} and {best['host_seconds'] / _HOUR_S:.4g} "
        f"host hours{_paid(advice, best)}; {len(advice['points'])} configurations were looked at."
    ]
    lines.append(uncertainty_of(advice))
    if advice["undecided"]:
        lines.append(
            f"It cannot be told from {len(advice['undecided'])} others: take the one that suits "
            "you best among them (marked = in the table)."
        )
    if advice.get("within") is not None:
        cheap = advice["points"][advice["within"]]
        lines.append(
            f"The cheapest that ends within the time that was given: "
            f"{words_of(cheap['configuration'])}, {seconds_of(cheap)}, "
            f"{cheap['host_seconds'] / _HOUR_S:.4g} host hours."
        )
    lines.append(
        f"Every figure on this page{but_for} is simulated, from the workload '{workload['name']}' "
        f"({workload['tasks']} tasks, {workload['files']} files) and the profile "
        f"'{profile['name']}' ({profile['source']}: {profile['note']})."
    )
    lines += [f"The profile: {why}." for why in profile.get("warnings", ())]
    if basis.get("power"):
        lines.append(f"Power ({basis['power']['source']}): {basis['power']['note']}.")
    return tuple(lines)


def _paid(advice: Mapping[str, Any], point: Mapping[str, Any]) -> str:
    """Money and energy, where they are known."""
    said = ""
    if point.get("money"):
        said += f", {point['money']['mean']:.4g} {advice['basis']['currency']}"
    if point.get("joules"):
        said += f", {point['joules']['mean'] / _JOULES_PER_WH:.4g} Wh"
    return said


def seconds_of(point: Mapping[str, Any]) -> str:
    """Return the makespan of a configuration in words, with its interval."""
    said = f"{point['seconds']:.4g} s"
    if interval := point.get("interval"):
        said += f" (90 % of runs: {interval['low']:.4g} to {interval['high']:.4g} s)"
    return said


def _ends(interval: Mapping[str, Any] | None) -> dict[str, float]:
    """Both ends of the interval of a makespan, as columns."""
    low, high = (interval["low"], interval["high"]) if interval else (float("nan"),) * 2
    return {"90 % from (s)": low, "to (s)": high}


def uncertainty_of(answer: Mapping[str, Any]) -> str:
    """Return what the intervals of an answer cover, and what nobody knows.

    >>> uncertainty_of({"uncertainty": {"probability": 0.9, "covers": [], "unknown": ["a", "b"]}})
    'No interval can be given: a; b.'
    """
    known = answer["uncertainty"]
    covers, unknown = known["covers"], "; ".join(known["unknown"])
    if not covers:
        return f"No interval can be given: {unknown}."
    said = f"The {known['probability']:.0%} intervals cover {', '.join(covers)}."
    return f"{said} Not in them: {unknown}." if unknown else said


def _choice(advice: Mapping[str, Any]) -> Section:
    shown = sorted({*range(min(_ROWS, len(advice["points"]))), *advice["pareto"], advice["best"]})
    rows = [_row(advice, place) for place in [*shown] if place < len(advice["points"])]
    tables = [
        Table(
            "configurations",
            "The fastest, and those that no other one beats in all goals. R: recommended, F: "
            "fastest, C: cheapest, E: draws least, P: beaten by none in all goals, =: cannot be "
            "told from what is recommended",
            pd.DataFrame(rows),
        )
    ]
    knobs = [
        {"choice": knob["name"], "value": value["value"], "best makespan (s)": value["seconds"]}
        for knob in advice["knobs"]
        for value in knob["values"]
    ]
    if knobs:
        caption = "What each choice changes, all else at its best"
        tables.append(Table("choices", caption, pd.DataFrame(knobs)))
    gains = [_gain(one) for one in advice.get("what_if") or []]
    if gains:
        caption = "What a change of the profile would bring, under the same random numbers"
        tables.append(Table("changes", caption, pd.DataFrame(gains)))
    text = [*advice["reasons"], *(f"Left out: {why}" for why in advice["refused"])]
    plot = Plot(
        "pareto",
        "Time and cost of every configuration, bars: 90 % of runs (simulated)",
        figures.pareto(advice),
    )
    return Section("Which, and why", tuple(text), tuple(tables), (plot,))


def _gain(one: Mapping[str, Any]) -> dict[str, Any]:
    saved, after = one["saved_seconds"], one["after"]
    half = saved.get("half_width")
    return {
        "change": one["change"],
        "saves (s)": saved["mean"],
        "± (s)": float("nan") if half is None else half,
        "told from noise": "no" if one["is_undecided"] else "yes",
        "then recommended": words_of(after["points"][after["best"]]["configuration"]),
    }


def _row(advice: Mapping[str, Any], place: int) -> dict[str, Any]:
    point = advice["points"][place]
    marks = [
        (place == advice["best"], "R"),
        (place == advice["fastest"], "F"),
        (place == advice["cheapest"], "C"),
        (place == advice["thriftiest"], "E"),
        (place in advice["pareto"], "P"),
        (place in advice["undecided"], "="),
    ]
    here = point["bytes"]["local"] + point["bytes"]["from_memory"]
    moved = here + point["bytes"]["remote"]
    further = {}
    if point.get("money"):
        further[f"money ({advice['basis']['currency']})"] = point["money"]["mean"]
    if point.get("joules"):
        further["energy (Wh)"] = point["joules"]["mean"] / _JOULES_PER_WH
    return {
        "": "".join(mark for holds, mark in marks if holds) or " ",
        "configuration": words_of(point["configuration"]),
        "makespan (s)": point["seconds"],
        **_ends(point.get("interval")),
        "host hours": point["host_seconds"] / _HOUR_S,
        **further,
        "local (%)": 100.0 * here / moved if moved else 100.0,
    }


def _run(answer: Mapping[str, Any], best: Mapping[str, Any]) -> Section:
    run = answer["first_run"]
    rows = [
        {
            "stage": stage["name"],
            "tasks": stage["tasks"],
            "from (s)": stage["start_seconds"],
            "to (s)": stage["end_seconds"],
            "metadata (s)": stage["metadata_seconds"],
            "read (s)": stage["read_seconds"],
            "compute (s)": stage["compute_seconds"],
            "write (s)": stage["write_seconds"],
        }
        for stage in run["stages"]
    ]
    usage = [
        {
            "resource": one["resource"],
            "busiest (%)": 100 * one["busiest"],
            "mean (%)": 100 * one["mean"],
        }
        for one in run["usage"]
    ]
    return Section(
        "How it runs",
        (f"One run of what is recommended: {words_of(best['configuration'])}.",),
        (
            Table(
                "stages",
                "Metadata, read, compute and write are sums over tasks",
                pd.DataFrame(rows),
            ),
            Table("usage", "How much of the time resources are busy", pd.DataFrame(usage)),
        ),
        (
            Plot("hosts", "Tasks on hosts over time, by stage (simulated)", figures.hosts(run)),
            Plot(
                "stages",
                "Stages over time, and what their tasks do (simulated)",
                figures.stages(run),
            ),
        ),
    )


def _rests_on(
    effects: Sequence[Effect], answer: Mapping[str, Any], profile: Mapping[str, Any]
) -> Section:
    is_measured = any(effect.number.is_measured for effect in effects)
    text = [
        "Each number of the profile was moved to both ends of its 95 % interval."
        if is_measured
        else f"Nobody measured this profile: each number was moved by {ASSUMED_SHARE:.0%}."
    ]
    overtaken = [effect.number.name for effect in effects if effect.overtaken]
    if overtaken:
        text.append(
            "At an end of " + ", ".join(overtaken) + " the runner-up is predicted to be faster: "
            "the advice rests on them. Measure them better before you rely on it."
        )
    elif effects:
        text.append("At none of them the runner-up is faster: the advice does not rest on one.")
    vague = profile.get("measured", {}).get("not_precise", {})
    if vague:
        text.append(f"Not known as well as was asked for when it was seeded: {', '.join(vague)}.")
    rows = [
        {
            "number": effect.number.name,
            "value": effect.number.value,
            "±": effect.number.half_width,
            "makespan at its low end (s)": effect.low_s,
            "at its high end (s)": effect.high_s,
            "advice changes": "yes" if effect.overtaken else "no",
        }
        for effect in effects
    ]
    plots = (
        Plot(
            "sensitivity",
            "Change of the makespan with each number of the profile (simulated)",
            figures.sensitivity(effects, answer["first_run"]["makespan_seconds"]),
        ),
    )
    table = Table(
        "sensitivity", "Numbers of the profile, in the unit of their name", pd.DataFrame(rows)
    )
    return Section("What it rests on", tuple(text), (table,) if rows else (), plots if rows else ())
