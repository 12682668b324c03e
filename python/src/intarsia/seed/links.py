"""Times of what crosses a link: files that one host makes and another one reads."""

import contextlib
import os
import statistics
import time
from collections.abc import Mapping
from typing import NoReturn

from intarsia.seed import leases
from intarsia.seed.compute import compute
from intarsia.seed.probe import BODY, CALLS, INTO, KIB, MIB, forget, read_in_calls, write_all
from intarsia.seed.watch import Times, Watch, joined

#: Files in a round that this host and another one each make, for where they lie, and their length.
PLACED, PLACED_BYTES = 4, 256 * KIB
DEALT = "dealt"  # the directory of files that are dealt over hosts
#: A file that another host reads, to fill the link, while it looks at others, of which there are so
#: many in a round, dealt over directories: the names of some may be kept on the host that looks.
#: The first of each directory is looked at before: it asks others more often than those after it.
_BUSY, _WHILE_BUSY, _BUSY_DIRECTORIES = "busy", 54, 6
#: A call that asks others crosses a link so often at most, nearly always.
_MOST_CROSSINGS = 8
#: A link that was idle for so long lets pass at once what it lets pass.
_IDLE_S = 0.02


def offer(directory: str, count: int, busy_bytes: int) -> Times:
    """Make `count` files for `far`, others that are read in whole, and one that fills the link.

    The last is `busy_bytes` long, and is not made where that is 0.
    """
    watch = Watch()
    names = [f"far-{number}" for number in range(count)]
    if busy_bytes:
        names += _offer_busy(directory, busy_bytes)
    for name in names:
        with open(os.path.join(directory, name), "xb") as file:
            file.write(BODY[: 4 * KIB])
    for number in range(PLACED):
        path = os.path.join(directory, f"placed-{number}")
        _write_whole(watch, path, "placed_write")
        forget(path)
        _read_whole(watch, path, "placed_read")
    _deal(watch, os.path.join(directory, DEALT))
    leases.prepare(directory)
    return watch.times()


def _offer_busy(directory: str, busy_bytes: int) -> list[str]:
    """Make the file that fills the link; returns the names of what is looked at meanwhile."""
    for number in range(_BUSY_DIRECTORIES):
        os.mkdir(os.path.join(directory, f"while-busy-{number}"))
    with open(os.path.join(directory, _BUSY), "xb") as file:
        for _ in range(max(1, busy_bytes // MIB)):
            file.write(BODY)
    return [_while_busy(number) for number in range(_WHILE_BUSY)]


def _deal(watch: Watch, directory: str) -> None:
    """Make a file that is dealt over hosts by chunks, if the store can do that and says so."""
    os.mkdir(directory)
    path = os.path.join(directory, "file")
    try:
        os.setxattr(directory, "user.intarsia.place", b"stripe:2")
        os.setxattr(directory, "user.intarsia.chunk", b"64KiB")
        _write_whole(watch, path, "dealt_write")
        # Stores of others keep any attribute, but do not say where a file lies.
        is_dealt = b"," in os.getxattr(path, "user.intarsia.layout")
    except OSError:
        is_dealt = False
    if not is_dealt and os.path.exists(path):
        os.unlink(path)


def back(directory: str) -> Times:
    """Look at directories that `far` changed on the other host, and read what it wrote."""
    looked = leases.look(directory)
    watch = Watch()
    for number in range(PLACED):
        _read_whole(watch, os.path.join(directory, f"back-{number}"), "placed_back")
    return joined(looked, watch.times())


def _write_whole(watch: Watch, path: str, name: str) -> None:
    """Write a new file until it is closed."""
    watch.start()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    write_all(file, BODY[:PLACED_BYTES])
    os.close(file)
    watch.stop(name)


def _read_whole(watch: Watch, path: str, name: str) -> None:
    watch.start()
    file = os.open(path, os.O_RDONLY)
    while os.readv(file, [INTO]):
        pass
    os.close(file)
    watch.stop(name)


def far(directory: str, count: int) -> Times:
    """What another host sees of what `data` and `offer` made; it also writes what `back` reads."""
    watch = Watch()
    for number in range(count):
        _look(watch, os.path.join(directory, f"far-{number}"), "far_")
    for call in CALLS:
        path = os.path.join(directory, f"data-{call}")
        read_in_calls(watch, path, call, "far")
    if os.path.exists(os.path.join(directory, _BUSY)):
        # Just after these, so that the connection has been at work for a while.
        _look_while_busy(watch, directory)
    read_in_calls(watch, os.path.join(directory, f"data-{MIB}"), MIB, "again")
    for number in range(PLACED if count else 0):
        time.sleep(_IDLE_S)
        _read_whole(watch, os.path.join(directory, f"placed-{number}"), "placed_far")
        _write_whole(watch, os.path.join(directory, f"back-{number}"), "placed_far_write")
    dealt = os.path.join(directory, DEALT, "file")
    for name in ("dealt_far", "dealt_again") if os.path.exists(dealt) else ():
        time.sleep(_IDLE_S)
        _read_whole(watch, dealt, name)
    computed = compute("far_compute") if count else {}
    # At last, so that the first host looks just after it.
    return joined(watch.times(), computed, leases.change(directory) if count else {})


def beside(directory: str, number: int) -> Times:
    """What one more host sees of the largest file, and what it takes to compute."""
    watch = Watch()
    path = os.path.join(directory, f"data-{MIB}")
    for kind in ("far", "again"):
        read_in_calls(watch, path, MIB, kind)
    times = joined(watch.times(), compute("compute"))
    return {
        name if name == "disturbed" else f"host_{number}_{name}": seconds
        for name, seconds in times.items()
    }


def _look(watch: Watch, path: str, kind: str = "", renames: bool = True) -> None:
    """Look at a file, open it, and rename it, which every store has to tell to others at once."""
    watch.start()
    os.stat(path)
    watch.stop(f"{kind}stat")
    watch.start()
    file = os.open(path, os.O_RDONLY)
    watch.stop(f"{kind}open")
    os.close(file)
    if renames:
        watch.start()
        os.rename(path, path + "r")
        watch.stop(f"{kind}rename")


def _while_busy(number: int) -> str:
    """The path of a file that is looked at while the link is full."""
    return f"while-busy-{number % _BUSY_DIRECTORIES}/{number}"


def one_wait(idle: Mapping[str, float], busy: Times) -> list[float]:
    """How long calls waited for a full link, of those that crossed it once.

    A call crosses it as often as it asks other hosts in turn, which nobody tells: once, several
    times, or never where what it asks for is here. So of waits that many had the shortest counts.
    `idle` and `busy` have the seconds of calls by their names, on an idle link and on a full one.
    """
    if "rename" not in busy:
        return []
    waits = [seconds - idle[name] for name, times in busy.items() for seconds in times]
    typical = statistics.median(busy["rename"]) - idle["rename"]
    least = max(typical / _MOST_CROSSINGS, 2 * max(idle[name] for name in busy))
    waits = sorted(wait for wait in waits if wait >= least)
    if not waits:
        return [0.0]
    # Single short ones are of a link that was not full yet.
    alike = [[wait for wait in waits if least <= wait <= 1.3 * least] for least in waits]
    often = max(2, len(waits) / 5)
    return next((some for some in alike if len(some) >= often), waits)


def _look_while_busy(watch: Watch, directory: str) -> None:
    """Look at files while a process of this host reads a large one, which fills the link."""
    idle = Watch()
    for number in range(_BUSY_DIRECTORIES):
        _look(idle, os.path.join(directory, _while_busy(number)))
    said, says = os.pipe()
    child = os.fork()
    if child == 0:
        _read_and_say(os.path.join(directory, _BUSY), said, says)
    os.close(says)
    try:
        os.read(said, 1)  # the first bytes are here, or it has failed
        os.set_blocking(said, False)
        busy: Times = {}
        for number in range(_BUSY_DIRECTORIES, _WHILE_BUSY):
            during = Watch()
            _look(during, os.path.join(directory, _while_busy(number)), renames=number % 2 == 0)
            with contextlib.suppress(BlockingIOError):
                os.read(said, 1)
                break  # all has come: this one was looked at on a link that may be idle
            busy = joined(busy, during.times())
        busy.pop("disturbed", None)
        # At first the stream has not filled the queue.
        busy = {name: times[len(times) // 2 :] for name, times in busy.items()}
        means = {name: statistics.mean(times) for name, times in idle.times().items()}
        if waits := one_wait(means, busy):
            watch.take("busy_wait", [statistics.median(waits)])
    finally:
        os.close(said)
        os.waitpid(child, 0)


def _read_and_say(path: str, said: int, says: int) -> NoReturn:
    """What the process does: it says so when the first bytes have come, and ends when all have."""
    try:
        os.close(said)
        file = os.open(path, os.O_RDONLY)
        os.readv(file, [memoryview(INTO)[: 4 * KIB]])
        os.write(says, b".")
        while os.readv(file, [INTO]):
            pass
    finally:
        os._exit(0)
