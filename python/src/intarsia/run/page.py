"""The page of a run: tasks over hosts and time, bytes local and remote, what took so long."""

from __future__ import annotations

import shlex
import sys
from collections import defaultdict
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from intarsia.run.attempts import Attempt, History
from intarsia.run.lanes import lanes_of
from intarsia.run.order import Result
from intarsia.run.summary import lines_of
from intarsia.simulate.report.document import Plot, Report, Section, Table
from intarsia.simulate.report.style import COLOURS, GREY, figure, legend_below, style
from intarsia.simulate.report.write import write_report

_MEGA = 1e6
_LEGEND = 10


def write_page(directory: Path, history: History) -> Path:
    """Write `report.html`, which needs nothing else, and its figures and tables; return the page.

    Raises OSError.
    """
    sections = [
        Section(
            "Tasks over hosts", ("Grey: attempts that did not end well.",), plots=_plots(history)
        ),
        Section(
            "Stages", tables=(Table("stages", "What each kind of task took", _stages(history)),)
        ),
        Section(
            "What waited for what",
            (
                "Backwards from the task that ended last: the one among those it waited for that "
                "ended last, and so on. Making these shorter makes the run shorter.",
            ),
            tables=(Table("chain", "The longest chain", _chain(history)),),
        ),
    ]
    if history.protection:
        sections.append(_protection(history))
    if history.failed:
        frame = pd.DataFrame(history.failed.items(), columns=["task", "why"])
        sections.insert(0, Section("Failures", tables=(Table("failures", "Tasks", frame),)))
    command = " ".join(shlex.quote(word) for word in sys.argv[1:])
    report = Report(
        history.graph.name,
        tuple(lines_of(history)),
        tuple(sections),
        made_with={"command": f"intarsia run {command}"},
    )
    return write_report(report, directory)


def _protection(history: History) -> Section:
    rows = [
        {
            "rule": one["rule"],
            "files": one["files"],
            "size (MB)": one["size_bytes"] / _MEGA,
            "with copies": one["with_copies"],
            "copy (s of a link)": one["copy_s"],
            "making again (s)": one["remake_s"],
            "chance": one["chance"],
            "why": one["why"].partition(":")[0],
        }
        for one in history.protection
    ]
    text = (
        "What is cheaper for when a host is lost, by earlier runs: a second copy of what a "
        "task makes, or making it again, with what it needs, times the chance that this happens "
        "while it is needed.",
    )
    table = Table("protection", "By rule of files", pd.DataFrame(rows))
    return Section("Copies or recomputation", text, tables=(table,))


def _plots(history: History) -> tuple[Plot, ...]:
    if not history.attempts:
        return ()
    stages = list(dict.fromkeys(task.stage for task in history.graph.tasks.values()))
    colours = {stage: COLOURS[number % len(COLOURS)] for number, stage in enumerate(stages)}
    with style():
        return (
            Plot("timeline", "Each row is a slot of a host", _timeline(history, colours)),
            Plot("bytes", "Bytes read from disks, by stage", _bytes(history)),
        )


def _timeline(history: History, colours: dict[str, str]) -> Figure:
    lanes = lanes_of(history.attempts)
    rows = [(host, lane) for host, found in lanes.items() for lane in found]
    made, (panel,) = figure(size=2.0)
    made.set_figheight(min(12.0, 1.4 + 0.22 * len(rows)))
    for row, (_, lane) in enumerate(rows):
        for one in lane:
            stage = history.graph.tasks[one.task].stage
            is_done = one.outcome.result is Result.DONE
            panel.barh(
                row,
                one.outcome.took_s,
                left=one.outcome.began_s - history.began_s,
                color=colours[stage] if is_done else GREY,
                edgecolor="white",
                linewidth=0.3,
            )
    names = [
        host if number == 0 else ""
        for found in lanes.items()
        for number, host in enumerate([found[0]] * len(found[1]))
    ]
    panel.set_yticks(range(len(rows)), names)
    panel.invert_yaxis()
    panel.set_xlabel("seconds since the run began")
    for stage in list(colours)[:_LEGEND]:
        panel.barh(0, 0, color=colours[stage], label=stage)
    legend_below(made, panel)
    return made


def _bytes(history: History) -> Figure:
    local: dict[str, float] = defaultdict(float)
    remote: dict[str, float] = defaultdict(float)
    for one in history.done:
        stage = history.graph.tasks[one.task].stage
        local[stage] += one.local_bytes / _MEGA
        remote[stage] += (one.input_bytes - one.local_bytes) / _MEGA
    made, (panel,) = figure(size=1.6)
    names = list(local)
    panel.barh(names, [local[name] for name in names], label="where the task ran")
    panel.barh(
        names,
        [remote[name] for name in names],
        left=[local[name] for name in names],
        label="on other hosts",
    )
    panel.invert_yaxis()
    panel.set_xlabel("MB")
    legend_below(made, panel)
    return made


def _stages(history: History) -> pd.DataFrame:
    stages: dict[str, list[Attempt]] = defaultdict(list)
    for one in history.done:
        stages[history.graph.tasks[one.task].stage].append(one)
    rows = [
        {
            "stage": stage,
            "tasks": len(found),
            "mean (s)": sum(one.outcome.took_s for one in found) / len(found),
            "longest (s)": max(one.outcome.took_s for one in found),
            "mean wait (s)": sum(one.sent_s - one.ready_s for one in found) / len(found),
            "CPU (s)": sum(one.outcome.cpu_s for one in found),
            "local (MB)": sum(one.local_bytes for one in found) / _MEGA,
            "remote (MB)": sum(one.input_bytes - one.local_bytes for one in found) / _MEGA,
        }
        for stage, found in stages.items()
    ]
    return pd.DataFrame(rows)


def _chain(history: History) -> pd.DataFrame:
    last = {one.task: one for one in history.done}
    rows = []
    one = max(last.values(), key=lambda one: one.outcome.ended_s, default=None)
    while one is not None:
        rows.append(
            {
                "task": one.task,
                "host": one.host,
                "ready at (s)": one.ready_s - history.began_s,
                "waited (s)": one.sent_s - one.ready_s,
                "took (s)": one.outcome.took_s,
            }
        )
        parents = [last[name] for name in history.graph.parents[one.task] if name in last]
        one = max(parents, key=lambda one: one.outcome.ended_s, default=None)
    return pd.DataFrame(rows[::-1])
