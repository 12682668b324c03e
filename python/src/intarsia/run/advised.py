"""`intarsia run --advice`: a run as is recommended, and what it took against what was foretold."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intarsia.advice.ask import AdviceError, Program, locate
from intarsia.learn.lessons import READER, group_of
from intarsia.refine.compare import HEADS, Comparison, Ran, compare
from intarsia.refine.profile import COMPARISON_FORMAT, base_of
from intarsia.run.attempts import History
from intarsia.run.graph import Graph, GraphError
from intarsia.run.hints import own_hints
from intarsia.run.record import time_text
from intarsia.simulate.files import write_atomically

if TYPE_CHECKING:
    from intarsia.run.choices import Choices

#: What was foretold and what happened, in the run directory.
COMPARED = "predicted.json"
#: The advice's words for schedulers, and ours: `--schedule` and `--patience`.
_SCHEDULES: Mapping[str, tuple[str, float | None]] = {
    "local": ("local", None),
    "location": ("local", 0.0),
    "workqueue": ("workqueue", None),
    "wow": ("wow", None),
}
Say = Callable[[str], None]


@dataclass(frozen=True)
class Advised:
    """An advice that is followed; `prediction` is that of its recommendation, if it can be had."""

    source: Path
    document: Mapping[str, Any]
    seed: int = 1

    @property
    def configuration(self) -> Mapping[str, Any]:
        """What is recommended."""
        point: Mapping[str, Any] = self.document["points"][_recommended(self.document)]
        configuration: Mapping[str, Any] = point["configuration"]
        return configuration

    @property
    def basis(self) -> Mapping[str, Any]:
        """What the advice rests on."""
        basis: Mapping[str, Any] = self.document["basis"]
        return basis

    @property
    def app_hosts(self) -> int:
        """Hosts that run tasks."""
        one = self.configuration
        apart = one["managers"] if one["managers_apart"] else 0
        return max(1, int(one["hosts"]) - int(one["storage_hosts"] or 0) - int(apart))


def _recommended(document: Mapping[str, Any]) -> int:
    """Return the place of what suits the user's weights; older advices have the fastest alone."""
    return int(document["best"] if "best" in document else document["fastest"])


def read_advice(path: Path) -> Advised:
    """Read what `intarsia advise --json` printed; raises GraphError."""
    help_ = "an advice is what `intarsia advise WORKLOAD --profile PROFILE --json` prints"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        advised = Advised(path, document)
        if document["kind"] != "advice":
            raise GraphError(str(path), [f"field 'kind' is {document['kind']!r}; {help_}"])
        for field in ("hosts", "managers", "managers_apart", "storage_hosts", "placement"):
            advised.configuration[field]
        _ = advised.basis["workload"]["tasks"], advised.basis["profile"]["name"]
    except OSError as error:
        raise GraphError(str(path), [str(error.strerror)]) from None
    except (ValueError, TypeError) as error:
        raise GraphError(str(path), [f"is no advice: {error}; {help_}"]) from None
    except (KeyError, IndexError) as error:
        raise GraphError(str(path), [f"is no advice: {error} is missing; {help_}"]) from None
    return advised


def check_workflow(advised: Advised, workflow: Path, graph: Graph) -> None:
    """Refuse an advice of another workload; raises GraphError.

    It is the same if it was read from the same file, or else has as many tasks.
    """
    known = advised.basis["workload"]
    if known.get("path") and Path(known["path"]).resolve() == workflow.resolve():
        return
    if known["tasks"] != len(graph.tasks):
        raise GraphError(
            str(advised.source),
            [
                f"is an advice for another workload: '{known['name']}' with {known['tasks']} "
                f"tasks, and '{graph.name}' has {len(graph.tasks)}; ask for an advice for this one"
            ],
        )


def follow(advised: Advised, choices: Choices, say: Say) -> Choices:
    """Return the choices with what is recommended, and say what that is; raises GraphError."""
    one, applied, left = advised.configuration, [], []
    hosts = choices.hosts
    if len(hosts or (1,)) < one["hosts"] and not (choices.up and not hosts):
        raise GraphError(
            str(advised.source),
            [f"is for {one['hosts']} hosts, not {len(hosts or (1,))}; name them with --hosts"],
        )
    options = list(choices.up_options)
    if choices.up is not None:
        options += ["--advice", str(advised.source)]
    else:
        left.append("number of copies, stripes and metadata hosts of a store that is up: as it is")
    if hosts:
        applied.append(f"{one['hosts']} hosts")
        hosts = hosts[: one["hosts"]]
    schedule, patience_s = choices.schedule, choices.patience_s
    if schedule is not None or patience_s is not None:
        given = "--patience" if schedule is None else f"--schedule {schedule}"
        left.append(f"scheduler {one['scheduler']}: {given} is given")
    elif one["scheduler"] in _SCHEDULES:
        schedule, patience_s = _SCHEDULES[one["scheduler"]]
        patience = "" if patience_s is None else f" --patience {patience_s:g}"
        applied.append(f"--schedule {schedule}{patience}")
    else:
        left.append(f"scheduler {one['scheduler']}, which `intarsia run` does not have")
    hints = choices.hints
    if hints is None:
        hints = "derived" if one["placement"] == "collocate" else "own"
        applied.append(f"--hints {hints}, for placement {one['placement']}")
    else:
        left.append(f"placement {one['placement']}: --hints {hints} is given")
    if one.get("tier"):
        applied.append(f"outputs in tiers of class {one['tier']}")
    for pattern, told in (one.get("patterns") or {}).items():
        words = " ".join(f"{name}={value}" for name, value in told.items())
        applied.append(f"{words} for {pattern} files")
    link = choices.link_bytes_per_s
    if link is None and (link := link_of_profile(advised)):
        applied.append(f"--link {link * 8 / 1e6:.0f}mbit, the rate that the profile has")
    if advised.app_hosts < one["hosts"]:
        applied.append(f"tasks on the first {advised.app_hosts} hosts only")
    known = advised.basis
    say(
        f"following the advice of {advised.source} (for '{known['workload']['name']}', on profile "
        f"'{known['profile']['name']}', {known['profile'].get('source', '?')})"
    )
    for text in applied:
        say(f"  applied      {text}")
    for text in left:
        say(f"  not applied  {text}")
    for text in advised.document.get("outside") or []:
        say(f"  note         {text}")
    return replace(
        choices,
        hosts=hosts,
        schedule=schedule,
        patience_s=patience_s,
        hints=hints,
        link_bytes_per_s=link,
        up_options=tuple(options),
    )


def link_of_profile(advised: Advised) -> float | None:
    """Return the bytes that a link carries in a second, by the profile if that is still there."""
    try:
        path = Path(advised.basis["profile"]["path"])
        host = json.loads(path.read_text(encoding="utf-8"))["host"]
        return float(min(host["in_bytes_per_second"], host["out_bytes_per_second"])) or None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def hints_for(advised: Advised, graph: Graph, hosts: int) -> dict[str, dict[str, str]]:
    """Return the hints of files by which what is recommended comes about; tasks' own win.

    Those are stripes and a tier for all that tasks make, and what files of a pattern are told.
    """
    one, own = advised.configuration, own_hints(graph)
    patterns = one.get("patterns") or {}
    usual = _hints_of_all(one, hosts)
    told = {
        file: (usual if file in graph.producer else {}) | _hints_by_use(graph, file, patterns)
        for file in graph.producer.keys() | graph.consumers.keys()
        if file not in own
    }
    return {file: hints for file, hints in told.items() if hints}


def _hints_of_all(one: Mapping[str, Any], hosts: int) -> dict[str, str]:
    hints = {"tier": str(one["tier"])} if one.get("tier") else {}
    if one["placement"] == "round-robin" and hosts > 1:
        width = min(hosts, one["stripe_width"])
        hints |= {"place": f"stripe:{width}", "chunk": str(one["chunk_bytes"])}
    return hints


def _hints_by_use(
    graph: Graph, file: str, patterns: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Return what files are told that tasks use like this one.

    What is there already stays where it is: only how it is read can be told.
    """
    hints = dict(patterns.get(pattern_of(graph, file), {}))
    if file not in graph.producer:
        return {name: value for name, value in hints.items() if name in ("pattern", "cache")}
    group = group_of(graph.consumers[file][0]) if file in graph.consumers else ""
    return {name: value.replace(READER, group) for name, value in hints.items()}


def pattern_of(graph: Graph, file: str) -> str:
    """Return how tasks use a file, as `intarsia advise` calls it."""
    readers = graph.consumers.get(file, ())
    if len(readers) > 1:
        return "broadcast"
    if not readers or file not in graph.producer:
        return "once"
    inputs = graph.tasks[readers[0]].inputs
    makers = {graph.producer[one] for one in inputs if one in graph.producer}
    return "reduce" if len(makers) > 1 else "pipeline"


def foretell(advised: Advised, say: Say) -> dict[str, Any] | None:
    """Predict what is recommended, stage by stage, from the files that the advice was made of.

    None, which is said, where these are gone or have changed: then nothing can be compared.
    """
    workload, profile = (advised.basis[part].get("path") for part in ("workload", "profile"))
    if not workload or not profile or not Path(workload).is_file() or not Path(profile).is_file():
        say("the workload or the profile of the advice is gone; nothing is compared with it")
        return None
    follows = bool(advised.configuration.get("follows_hints", True))
    program = Program(locate(), Path(workload), Path(profile), advised.seed, not follows)
    try:
        with tempfile.TemporaryDirectory(prefix="intarsia-run-") as scratch:
            answer = program.predict(advised.configuration, Path(scratch), None)
    except AdviceError as error:
        say(f"the advice cannot be predicted again; nothing is compared with it: {error}")
        return None
    for part in ("workload", "profile"):
        if answer["basis"][part].get("blake3") != advised.basis[part].get("blake3"):
            raise GraphError(
                str(advised.source),
                [
                    f"the {part} {advised.basis[part]['path']} is another one since the advice was "
                    "made; ask `intarsia advise` again"
                ],
            )
    return answer


def keep_comparison(
    run_dir: Path, advised: Advised, prediction: Mapping[str, Any], history: History
) -> Comparison:
    """Leave what was foretold and what happened in the run directory; raises OSError."""
    compared = compare(prediction, _ran(history))
    profile = json.loads(Path(advised.basis["profile"]["path"]).read_text(encoding="utf-8"))
    _, factors = base_of(profile)
    moved = prediction["first_run"]["bytes"]
    document = {
        "format": COMPARISON_FORMAT,
        "version": 1,
        "id": history.id,
        "ended_at": time_text(history.ended_s),
        "host": next(iter(history.machines), ""),
        "hosts": advised.configuration["hosts"],
        "tasks": advised.basis["workload"]["tasks"],
        "moved_bytes": moved["local"] + moved["remote"],
        "placement": advised.configuration["placement"],
        "advice": str(advised.source),
        "configuration": dict(advised.configuration),
        "profile": {"name": profile["name"], "path": advised.basis["profile"]["path"]}
        | {"factors": factors},
        "comparison": compared.native(),
    }
    write_atomically(run_dir / COMPARED, (json.dumps(document, indent=1) + "\n").encode())
    return compared


def tell(compared: Comparison, say: Say) -> None:
    """Say how far the prediction was off, by stages."""
    rows = [HEADS, *compared.rows()]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADS))]
    say("predicted and actual:")
    for name, *numbers in rows:
        cells = [text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True)]
        say("  ".join(["", name.ljust(widths[0]), *cells]))
    if verdict := compared.verdict():
        say(f"  {verdict}")
    if compared.unmatched:
        say(f"  stages of only one of both: {', '.join(compared.unmatched)}")


def _ran(history: History) -> list[Ran]:
    """The tasks that ran; one that imitates a computation computes so long."""
    tasks = history.graph.tasks
    return [
        Ran(
            tasks[one.task].stage,
            one.outcome.began_s,
            one.outcome.ended_s,
            one.outcome.cpu_s if tasks[one.task].stdin is None else tasks[one.task].compute_s,
            one.outcome.command_s or None,
        )
        for one in history.done
    ]
