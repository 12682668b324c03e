"""Hints for a workflow's files, derived from who writes and who reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from intarsia.learn.lessons import Lesson, group_of
from intarsia.learn.observed import Role, role_of
from intarsia.run.affinity import are_kept_together
from intarsia.run.graph import Graph
from intarsia.run.sizes import Sizes
from intarsia.schedule.host import LINK_BYTES_PER_S

#: A hint costs about 1 ms; a link of 1 Gbit/s carries some 120 kB in that time.
WORTH_BYTES = 128 << 10
# Fewer files than this are read from their hosts in the time of one.
_GROUP_FILES = 3
# A file of which the store takes no pieces: it comes from its home (docs/user/hints-and-rules.md).
_SPREAD_MIN_BYTES = 512 << 10
# What spreading takes beyond one reading of the file, measured (docs/figures-workflows.md): up to
# a quarter of that, and the questions before the first piece comes.
_SPREAD_SHARE = 1.25
_SPREAD_S = 0.01
# Patterns by which a store puts files elsewhere than where they are made, unless a place is said.
_PLACING = frozenset({"distribute", "gather", "reduce", "scatter"})

#: Says which hints a new file of that name would have from its directory.
Inherited = Callable[[str], Mapping[str, str]]


def nothing_inherited(_: str) -> Mapping[str, str]:
    """No directory has hints."""
    return {}


@dataclass(frozen=True, slots=True)
class Cluster:
    """What hints depend on: how many hosts there are, and the least size that is worth one.

    `by_affinity`: tasks run where what is read beside their outputs is (`intarsia.run.affinity`).
    """

    hosts: int
    worth_bytes: int = WORTH_BYTES
    link_bytes_per_s: float = LINK_BYTES_PER_S
    by_affinity: bool = False

    @classmethod
    def linked(cls, hosts: int, link_bytes_per_s: float, *, by_affinity: bool = False) -> Cluster:
        """Hosts with links of that rate: over a faster one only larger files are worth a hint."""
        worth_bytes = round(WORTH_BYTES * link_bytes_per_s / LINK_BYTES_PER_S)
        return cls(hosts, worth_bytes, link_bytes_per_s, by_affinity)

    def gains_by_spreading(self, size_bytes: int, readers: int) -> bool:
        """Whether so many tasks have a file sooner that they take from each other.

        One of them may run where the file lies, and several on one host read what it has. Without
        the hint the file leaves its home once for each of the other hosts. How much of it they
        read does not matter: a host takes what its tasks read.
        """
        others = min(readers, self.hosts) - 1
        one_s = size_bytes / self.link_bytes_per_s
        gained_s = (others - _SPREAD_SHARE) * one_s
        return size_bytes >= _SPREAD_MIN_BYTES and gained_s > _SPREAD_S


@dataclass(frozen=True, slots=True)
class Derived:
    """Hints of a file, or none, and why."""

    hints: Mapping[str, str]
    why: str


class Derivation:
    """Derives hints for the files of a graph from what is known of them so far.

    A hint can save nothing but the time in which bytes move. So one is derived only for files whose
    size is known, or that of others of their rule, and only where they would lie elsewhere, or be
    read more slowly, without it: a store leaves a file with its maker by itself.
    """

    def __init__(
        self,
        graph: Graph,
        cluster: Cluster,
        sizes: Sizes | None = None,
        inherited: Inherited = nothing_inherited,
    ) -> None:
        self.graph = graph
        self.cluster = cluster
        self.sizes = sizes or Sizes(graph.size_bytes)
        self._inherited = inherited
        self._roles: dict[str, Role] = {}
        self._alone: dict[str, frozenset[str]] = {}

    def role(self, file: str) -> Role:
        """Return the rule that a file belongs to."""
        if file not in self._roles:
            self._roles[file] = role_in(self.graph, file)
        return self._roles[file]

    def made(self, file: str, size_bytes: int) -> None:
        """A file is there, and so large."""
        self.sizes.made(file, self.role(file), size_bytes)

    def size_bytes(self, file: str) -> int | None:
        """Return how large a file is, or will be, as far as it is known."""
        return self.sizes.of(file, self.role(file))

    def is_small(self, file: str) -> bool:
        """Whether a file is known to be moved sooner than a hint is set."""
        size_bytes = self.size_bytes(file)
        return size_bytes is not None and size_bytes < self.cluster.worth_bytes

    def of(self, file: str) -> Derived:
        """Return the hints of one file by what is known now."""
        readers = self.graph.consumers.get(file, ())
        if self.cluster.hosts < 2:
            return Derived({}, "there is one host")
        if not readers:
            return Derived({}, "no task reads it")
        if len(readers) > 1:
            return self._spread(file, readers)
        if file not in self.graph.producer:
            return Derived({}, "one task reads what is there already")
        return self._placed(file, readers[0])

    def read_alone(self, reader: str) -> frozenset[str]:
        """Return what tasks make for this reader and no other, if it is to be gathered.

        Those are the outputs of several tasks, wherever these run.
        """
        if reader not in self._alone:
            self._alone[reader] = self._find_alone(reader)
        return self._alone[reader]

    def _find_alone(self, reader: str) -> frozenset[str]:
        graph = self.graph
        if self.cluster.by_affinity and are_kept_together(graph, reader):
            return frozenset()
        alone = frozenset(
            file
            for file in graph.tasks[reader].inputs
            if file in graph.producer and graph.consumers[file] == (reader,)
        )
        return alone if self._are_many(alone) else frozenset()

    def _are_many(self, files: Iterable[str]) -> bool:
        """Whether there are as many files as a group has, by more than one maker."""
        makers: set[str] = set()
        for count, file in enumerate(files, 1):
            makers.add(self.graph.producer[file])
            if count >= _GROUP_FILES and len(makers) > 1:
                return True
        return False

    def _spread(self, file: str, readers: Sequence[str]) -> Derived:
        # No `replicas`: copies that are made at once take the link as long as the readers do.
        size_bytes = self.size_bytes(file)
        if size_bytes is None:
            return Derived({}, "many tasks read it, and nobody knows yet how large it is")
        apart = [name for name in readers if not self._follows(name, file, size_bytes)]
        hosts = min(len(apart), self.cluster.hosts)
        if self.cluster.gains_by_spreading(size_bytes, len(apart)):
            return Derived({"pattern": "broadcast"}, f"tasks on up to {hosts} hosts read it")
        if len(apart) < len(readers):
            return Derived({}, "tasks that read it run where it is made")
        return Derived({}, f"it takes no longer to reach {hosts} hosts one by one")

    def _placed(self, file: str, reader: str) -> Derived:
        alone = self.read_alone(reader)
        is_gathered = file in alone
        if not is_gathered and not _puts_elsewhere(self._inherited(file)):
            return Derived({}, "a store has it where it is made by itself")
        size_bytes = self.size_bytes(file)
        if size_bytes is None:
            return Derived({}, "nobody knows yet how large it is")
        if size_bytes < self.cluster.worth_bytes:
            return Derived({}, "it is moved sooner than a hint is set")
        if is_gathered and self._are_many(one for one in alone if self._is_worth(one)):
            why = "one task reads it together with what others make"
            return Derived({"place": f"collocate:{group_of(reader)}"}, why)
        if is_gathered and not _puts_elsewhere(self._inherited(file)):
            return Derived({}, "too little is read together with it")
        return Derived({"place": "local"}, "its directory has a hint that puts it elsewhere")

    def _follows(self, reader: str, file: str, size_bytes: int) -> bool:
        """Whether a task runs where `file` is made since as much of its input is made there too.

        Other files whose size nobody knows count as large.
        """
        graph = self.graph
        if not self.cluster.by_affinity or not are_kept_together(graph, reader):
            return False
        inputs = [one for one in graph.tasks[reader].inputs if one in graph.producer]
        sizes = [self.size_bytes(one) for one in inputs]
        all_bytes = sum(size_bytes if one is None else one for one in sizes)
        return file in inputs and 2 * size_bytes <= all_bytes

    def _is_worth(self, file: str) -> bool:
        size_bytes = self.size_bytes(file)
        return size_bytes is not None and size_bytes >= self.cluster.worth_bytes


def _puts_elsewhere(hints: Mapping[str, str]) -> bool:
    """Whether a store puts a new file with these hints elsewhere than where it is made."""
    if "place" in hints:
        return hints["place"] != "local"
    return hints.get("pattern") in _PLACING


def hints_of(
    graph: Graph,
    cluster: Cluster,
    lessons: Mapping[Role, Lesson] | None = None,
    inherited: Inherited = nothing_inherited,
) -> dict[str, dict[str, str]]:
    """Return the hints of files by their names, by what is known before anything is made."""
    return chosen_by(Derivation(graph, cluster, inherited=inherited), lessons)


def chosen_by(
    derivation: Derivation, lessons: Mapping[Role, Lesson] | None = None
) -> dict[str, dict[str, str]]:
    """Return the hints of files by their names; a task's own win over derived ones.

    For files of a rule of which an earlier run has taught something, that counts, unless they are
    known to be small.
    """
    graph = derivation.graph
    found = {}
    for file in dict.fromkeys([*graph.producer, *graph.sources]):
        lesson = (lessons or {}).get(derivation.role(file))
        hints: Mapping[str, str] = {}
        if lesson is None or derivation.cluster.hosts < 2:
            hints = derivation.of(file).hints
        elif not derivation.is_small(file):
            hints = lesson.hints_for(graph.consumers.get(file, ()))
        producer = graph.producer.get(file)
        if producer is not None:
            hints = joined(hints, graph.tasks[producer].hints)
        if hints:
            found[file] = dict(hints)
    return found


def role_in(graph: Graph, file: str) -> Role:
    """Return the rule that a file belongs to; what no task makes has a maker without a name."""
    maker = graph.producer.get(file)
    readers = (graph.tasks[name].stage for name in graph.consumers.get(file, ()))
    return role_of("" if maker is None else graph.tasks[maker].stage, file, readers)


def own_hints(graph: Graph) -> dict[str, dict[str, str]]:
    """Return only the hints that tasks name themselves, by files."""
    return {
        file: dict(graph.tasks[name].hints)
        for file, name in graph.producer.items()
        if graph.tasks[name].hints
    }


def joined(derived: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Let a task's own hints win; a place or pattern of its own excludes derived ones."""
    excluded = {"pattern", "place"} if says_where(own) else set()
    kept = {name: value for name, value in derived.items() if name not in excluded}
    return kept | dict(own)


def says_where(hints: Mapping[str, str]) -> bool:
    """Whether hints have a place or a pattern."""
    return not {"pattern", "place"}.isdisjoint(hints)
