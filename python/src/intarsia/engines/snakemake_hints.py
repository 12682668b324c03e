"""Hints for the files of a Snakemake workflow: what its flags say, and what its jobs tell.

A hint cannot be set on an output before its job begins, since Snakemake removes what is there. So
files that many jobs read are told to be spread once they are made, and those that one job gathers
have their hint from their directory.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from intarsia.engines.snakemake_graph import graph_of_jobs, name_of, sizes_of
from intarsia.locate import Locations
from intarsia.run.graph import Graph
from intarsia.run.hints import Cluster, Derivation, says_where
from intarsia.run.sizes import Sizes
from intarsia.run.tags import BROADCAST, Tags
from intarsia.tag import PREFIX, hints_on, tag

#: Which hints are set: those of flags and of the graph, those of flags, none.
CHOICES = ("derived", "flags", "none")
HELP = (
    "derived: input files get the hints that their flags access.* say, and those that many jobs "
    "read are spread; what one job gathers is made on one host; flags: as the flags say; "
    "none: no hints."
)
#: What the flags `access.*` of input files say, as hints of the store.
FLAGS = {"sequential": "sequential", "random": "random", "multi": "broadcast"}
_PLACE = PREFIX + "place"


def told_by(logger: Any) -> Callable[[str], None]:
    """Return what has Snakemake's logger tell of hints."""
    return lambda text: logger.info(f"Hints: {text}.")


class Hints:
    """Sets hints as jobs become ready and end. What a file or a store refuses is advice lost.

    `say` hears why files of a rule get a hint, or none.
    """

    def __init__(self, dag: Any, choice: str, cluster: Cluster, say: Callable[[str], None]) -> None:
        self._dag = dag
        self._choice = choice
        self._cluster = cluster
        self._say = say
        self._sizes = Sizes()
        self._by_file: dict[str, dict[str, str]] = {}
        self._tags: Tags | None = None
        self._said: set[str] = set()
        self._known: set[str] = set()
        self._gathered = _Gathered()

    def begin(self, jobs: Iterable[Any], found: Locations) -> None:
        """Single jobs are about to begin, whose input is `found`."""
        if self._choice == "none":
            return
        jobs = list(jobs)
        sizes = {file.path: file.size_bytes for file in found.files if not file.problem}
        if self._choice == "derived" and (tags := self._tags_for(jobs)) is not None:
            tags.made(sizes)
            for job in jobs:
                self._gathered.begin(tags.derivation, map(str, job.output))
        # What is not there, or lies in no store, is told nothing.
        self._follow_flags(file for job in jobs for file in job.input if str(file) in sizes)

    def done(self, job: Any) -> None:
        """A single job has made its output."""
        if self._tags is not None:
            sizes = sizes_of(job.output)
            known = self._tags.derivation.graph.producer
            for file in sizes.keys() & known.keys():
                self._tags.derivation.made(file, sizes[file])
            self._gathered.done(map(str, job.output))

    def close(self) -> None:
        """Nothing begins any more."""
        self._gathered.close()

    def _tags_for(self, jobs: Iterable[Any]) -> Tags | None:
        """What derives hints from a graph that has these jobs; None where there is no graph.

        Those jobs count that have to run still. Behind a checkpoint there come more.
        """
        if not all(name_of(job) in self._known for job in jobs):
            waiting = list(self._dag.needrun_jobs())
            self._known = {name_of(job) for job in (*waiting, *jobs)}
            self._tags = self._new_tags(graph_of_jobs(waiting))
        return self._tags

    def _new_tags(self, graph: Graph | None) -> Tags | None:
        if graph is None:
            return None
        derivation = Derivation(graph, self._cluster, self._sizes)
        here = Path()
        return Tags(derivation, self._by_file, here, keeps_patterns=True, say=self._say_once)

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    def _follow_flags(self, files: Iterable[Any]) -> None:
        """Tell the store how input files are read, where the workflow says so."""
        wanted: defaultdict[str, list[str]] = defaultdict(list)
        for file in files:
            pattern = FLAGS.get(str(getattr(file, "flags", {}).get("access_pattern")))
            known = self._by_file.get(str(file), {}).get("pattern")
            # What several jobs say, or the graph does, may differ: the store acts upon one of them.
            if pattern is not None and known not in (pattern, *BROADCAST.values()):
                self._by_file[str(file)] = {"pattern": pattern}
                wanted[pattern].append(str(file))
        for pattern, some in wanted.items():
            tag(some, {"pattern": pattern})


class _Gathered:
    """Directories all of whose files one job gathers: they have its group while files are made."""

    def __init__(self) -> None:
        self._decided: set[str] = set()
        self._made: set[str] = set()
        self._left: dict[str, set[str]] = {}

    def begin(self, derivation: Derivation, files: Iterable[str]) -> None:
        """Files are about to be made: tag their directories, where it pays and nobody else has."""
        for file in files:
            directory = os.path.dirname(file)  # noqa: PTH120 - there may be thousands
            if not directory or directory in self._decided:
                continue
            hints = derivation.of(file).hints
            if "place" in hints:
                self._decided.add(directory)
                (reader,) = derivation.graph.consumers[file]
                below = _below(directory, derivation.graph.producer)
                if below <= derivation.read_alone(reader) and _tag(directory, hints):
                    self._left[directory] = set(below) - self._made

    def done(self, files: Iterable[str]) -> None:
        """Files are made; a directory with all of its own has no hint any more."""
        files = set(files)
        self._made |= files
        for directory in list(self._left):
            self._left[directory] -= files
            if not self._left[directory]:
                self._untag(directory)

    def close(self) -> None:
        """Take all hints away."""
        for directory in list(self._left):
            self._untag(directory)

    def _untag(self, directory: str) -> None:
        del self._left[directory]
        with suppress(OSError):
            os.removexattr(directory, _PLACE)


def _below(directory: str, files: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(file for file in files if file.startswith(f"{directory}/"))


def _tag(directory: str, hints: Mapping[str, str]) -> bool:
    """Give a directory hints, unless somebody has said where its files are to be; says if so."""
    with suppress(OSError):
        Path(directory).mkdir(parents=True, exist_ok=True)
        return not says_where(hints_on(directory)) and not tag([directory], hints)
    return False
