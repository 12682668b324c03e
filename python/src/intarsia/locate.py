"""Where files of a store lie: many paths at once, asked of the mount itself."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from intarsia.batch import answers

_NODE = "user.intarsia.node"
_LOCATION = "user.intarsia.location"
_LAYOUT = "user.intarsia.layout"
# The bytes of these stand beside the inode, or in the file system below: no host is nearer to them.
_EVERYWHERE = frozenset({"empty", "inline", "packed", "lower"})
# The longest name of a file. (Linux: NAME_MAX.)
_NAME_BYTES_MAX = 255
#: What the kernel says of a mount whose server has ended.
NODE_ENDED = frozenset({errno.ENOTCONN, errno.ECONNABORTED})
# What `getxattr` says where a file has no such attribute.
_NO_ATTRIBUTE = frozenset({errno.ENODATA, errno.EOPNOTSUPP})


@dataclass(frozen=True, slots=True)
class Located:
    """Where one file lies.

    `bytes_by_host` says how many bytes a host reads from its own disk; hosts with most come
    first. It is empty where `is_everywhere` holds or `problem` says why nothing is known.
    """

    path: str
    size_bytes: int = 0
    bytes_by_host: Mapping[str, int] = field(default_factory=dict)
    is_everywhere: bool = False
    problem: str | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that hold a part of the file, the one with most first."""
        return tuple(self.bytes_by_host)

    @property
    def copies(self) -> int:
        """How many hosts hold the whole file."""
        return sum(held == self.size_bytes for held in self.bytes_by_host.values())


@dataclass(frozen=True, slots=True)
class Locations:
    """Where files lie, in the order in which they were asked for."""

    files: tuple[Located, ...]

    @property
    def bytes_by_host(self) -> dict[str, int]:
        """Bytes of all files that each host reads from its own disk, the host with most first."""
        total: Counter[str] = Counter()
        for file in self.files:
            total.update(file.bytes_by_host)
        return dict(total.most_common())

    @property
    def size_bytes(self) -> int:
        """Bytes of all files that lie on certain hosts; a task reads these from a disk."""
        return sum(file.size_bytes for file in self.files if file.bytes_by_host)

    @property
    def unknown(self) -> tuple[Located, ...]:
        """Files of which nothing is known, each with its `problem`."""
        return tuple(file for file in self.files if file.problem is not None)


def locate(paths: Iterable[str | os.PathLike[str]]) -> Locations:
    """Say where files lie. Never raises for a path: what is wrong with one is in its `problem`.

    Each answer is that of the moment; files move to the host that wrote them last.

    >>> locate(["/proc/self/status"]).unknown[0].problem
    'lies in no store'
    """
    asked = [os.fspath(path) for path in paths]
    found = _at_once(asked)
    nodes: dict[int, str | None] = {}
    return Locations(tuple(found.get(path) or _located(path, nodes) for path in asked))


def host_of(path: str | os.PathLike[str]) -> str | None:
    """Name the host whose mount `path` is in, or return None where `path` is in no store."""
    return _of_node(path, "node")


def store_of(path: str | os.PathLike[str]) -> str | None:
    """Return by what the store is known that `path` is in, or None where it is in none."""
    return _of_node(path, "store")


def _of_node(path: str | os.PathLike[str], what: str) -> str | None:
    """Return what the node whose mount `path` is in says of itself."""
    value = _attribute(os.fspath(path), _NODE)
    return None if value is None else str(json.loads(value)[what])


def is_in(directory: str | os.PathLike[str], store: str | None) -> bool:
    """Whether `directory` is there, and in `store` if one is named."""
    try:
        is_there = os.path.isdir(directory)  # noqa: PTH112
        return is_there and store in (None, store_of(directory))
    except OSError:
        return False


def has_left(directory: str | os.PathLike[str], store: str | None) -> bool:
    """Whether `store`, if one is named, was taken away from `directory`: it leads elsewhere now."""
    try:
        return store is not None and store_of(directory) != store
    except OSError as error:
        return error.errno == errno.ENOENT


def has_lost_store(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is in no store, or in one whose node on this host has ended."""
    try:
        return host_of(path) is None
    except OSError as error:
        return error.errno in NODE_ENDED


def _at_once(paths: list[str]) -> dict[str, Located]:
    """Locate what one call for each directory can tell: regular files of stores."""
    directories: dict[str, dict[str, str]] = {}
    for path in paths:
        directory, name = os.path.split(path)
        if name not in ("", ".", "..") and len(os.fsencode(name)) <= _NAME_BYTES_MAX:
            directories.setdefault(directory or ".", {})[name] = path
    found = {}
    for directory, names in directories.items():
        try:
            if host_of(directory) is None:
                continue
            for path, answer in zip(names.values(), answers(directory, [*names]), strict=True):
                if located := _told(path, answer):
                    found[path] = located
        except OSError:
            # Each path by itself finds out what is wrong.
            continue
    return found


def _told(path: str, answer: str) -> Located | None:
    """What an answer says; None where it says too little."""
    layout, *rest = answer.split(" ")
    words = dict(word.split("=", 1) for word in rest)
    if "size" not in words:
        return None
    return _lying(path, int(words["size"]), layout, words.get("chunk"), words["hosts"].split(","))


def _located(path: str, nodes: dict[int, str | None]) -> Located:
    """Locate one file; `nodes` remembers the host of each mount by its device number."""
    try:
        about = os.stat(path)  # noqa: PTH116 - twice as fast, and there may be thousands
        if about.st_dev not in nodes:
            nodes[about.st_dev] = host_of(path)
        here = nodes[about.st_dev]
        if here is None:
            return Located(path, problem="lies in no store")
        if not stat.S_ISREG(about.st_mode):
            return Located(path, problem="is no regular file")
        return _in_store(path, about.st_size, here)
    except OSError as error:
        return Located(path, problem=error.strerror or str(error))


def _in_store(path: str, size_bytes: int, here: str) -> Located:
    hosts = [host for host in (_attribute(path, _LOCATION) or "").split(",") if host]
    # One host that is not this one holds the whole file: its layout need not be asked for.
    if len(hosts) == 1 and hosts[0] != here:
        return Located(path, size_bytes, {hosts[0]: size_bytes})
    layout = (_attribute(path, _LAYOUT) or "").split() or [""]
    words = dict(word.split("=", 1) for word in layout[1:])
    return _lying(path, size_bytes, layout[0], words.get("chunk"), hosts)


def _lying(
    path: str, size_bytes: int, layout: str, chunk_bytes: str | None, hosts: list[str]
) -> Located:
    if layout in _EVERYWHERE:
        return Located(path, size_bytes, is_everywhere=True)
    if chunk_bytes is not None:
        held = striped_bytes(size_bytes, int(chunk_bytes), hosts)
        return Located(path, size_bytes, held)
    return Located(path, size_bytes, dict.fromkeys(hosts, size_bytes))


def striped_bytes(size_bytes: int, chunk_bytes: int, hosts: list[str]) -> dict[str, int]:
    """Bytes of a striped file on each host: chunk i lies on host i mod N; most bytes first.

    >>> striped_bytes(10, 4, ["a", "b"])
    {'a': 6, 'b': 4}
    """
    held: Counter[str] = Counter(dict.fromkeys(hosts, 0))
    full, rest = divmod(size_bytes, chunk_bytes)
    for index, host in enumerate(hosts):
        # A host may stand several times in the stripe.
        held[host] += chunk_bytes * len(range(index, full, len(hosts)))
    if rest:
        held[hosts[full % len(hosts)]] += rest
    return dict(held.most_common())


def _attribute(path: str, name: str) -> str | None:
    try:
        return os.getxattr(path, name).decode()
    except OSError as error:
        if error.errno in _NO_ATTRIBUTE:
            return None
        raise
