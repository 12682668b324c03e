"""Where experiments read and write: a directory, a block device, or a throttled file."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from intarsia.characterise.errors import CharacteriseError

_START_LIMIT_S = 10.0
_POLL_S = 0.02
_BURST_S = 0.1


@dataclass(frozen=True)
class Throttle:
    """By how much a file is made slower, by nbdkit."""

    delay_ms: int = 0
    """Added to each request; nbdkit takes whole ms."""
    bytes_per_second: float | None = None
    """At most so much, in each direction; None: no limit."""
    at_once: int = 16
    """Requests that are served at the same time; others wait."""

    @property
    def label(self) -> str:
        """What is added to the name of a target, so that nobody takes it for the bare store."""
        rate = "" if self.bytes_per_second is None else f", {self.bytes_per_second / 1e6:g} MB/s"
        return f"throttled: {self.delay_ms} ms a request{rate}, {self.at_once} at once"


@dataclass(frozen=True)
class Target:
    """What a benchmark is pointed at."""

    path: Path
    label: str
    options: tuple[str, ...]
    """Of fio; the last ones of a job, so that they win."""
    is_directory: bool
    may_write: bool
    is_file_made: bool = True
    """Whether fio makes a file; else there is a device."""
    file_system: int | None = None
    """The file system on which the directory was when all began."""

    def require(self) -> None:
        """Raise `CharacteriseError` when it went away.

        A directory on which a file system was mounted stays when that goes, and is another store.
        """
        if self.is_directory:
            require_directory(self.path)
            if self.file_system not in (None, self.path.stat().st_dev):
                raise CharacteriseError(
                    f"{self.path}: another file system is there than at the start; has the store "
                    "gone away? Mount it again: the same command goes on then"
                )
        elif not self.path.exists():
            raise CharacteriseError(
                f"{self.path} is not there any more; has the store gone away? "
                "The same command goes on later"
            )


def require_directory(directory: Path) -> None:
    """Raise `CharacteriseError` unless files can be made there."""
    if directory.is_block_device():
        raise CharacteriseError(
            f"{directory} is a device, and runs write: give a directory of a file system on it"
        )
    if not directory.is_dir():
        raise CharacteriseError(
            f"{directory}: no directory; has the store gone away? The same command goes on later"
        )


@contextmanager
def opened(
    path: Path,
    *,
    size_bytes: int,
    throttle: Throttle | None = None,
    overwrite: bool = False,
) -> Iterator[Target]:
    """Prepare a directory or a block device for experiments, and leave nothing behind.

    A device is claimed as long as this lasts, so that nobody mounts it meanwhile; it is only read
    unless `overwrite` is given. With `throttle` a file of `size_bytes` in a directory is served by
    nbdkit, slower than the directory. Raises `CharacteriseError` for a device that is in use.
    """
    if path.is_block_device():
        if throttle is not None:
            raise CharacteriseError(f"{path}: only a file in a directory can be throttled")
        with _claimed(path):
            yield _device(path, size_bytes, overwrite)
    else:
        require_directory(path)
        system = path.stat().st_dev
        if throttle is None:
            made = (f"--directory={path}", "--unlink=1")
            yield Target(path, str(path), made, True, True, file_system=system)
        else:
            label = f"{path} ({throttle.label})"
            with _served(path, size_bytes, throttle) as uri:
                options = ("--ioengine=nbd", f"--uri={uri}", "--thread=1")
                yield Target(path, label, options, True, True, False, file_system=system)


@contextmanager
def _claimed(device: Path) -> Iterator[None]:
    try:
        # For a block device the kernel gives O_EXCL to one holder at a time, and a mounted file
        # system, swap, RAID or volume group is one.
        claim = os.open(device, os.O_RDONLY | os.O_EXCL)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        where = _mounts(device)
        use = f"mounted on {', '.join(where)}" if where else "in use (mounted, swap, RAID or LVM)"
        raise CharacteriseError(
            f"{device} is {use}: nothing was read or written; unmount it, or give a directory on it"
        ) from None
    try:
        yield
    finally:
        os.close(claim)


def _mounts(device: Path) -> list[str]:
    number = device.stat().st_rdev
    wanted = f"{os.major(number)}:{os.minor(number)}"
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if line.split()[2] == wanted]


def _device(path: Path, size_bytes: int, overwrite: bool) -> Target:
    with open(path, "rb") as file:
        room = file.seek(0, os.SEEK_END)
    if room < size_bytes:
        raise CharacteriseError(
            f"{path} has {room} bytes and runs use {size_bytes}: lower `size` in the factor file"
        )
    options = (f"--filename={path}", "--allow_file_create=0", *([] if overwrite else _READ_ONLY))
    return Target(path, str(path), options, False, overwrite, False)


_READ_ONLY = ("--readonly",)


@contextmanager
def _served(directory: Path, size_bytes: int, throttle: Throttle) -> Iterator[str]:
    """Serve a file of a directory by nbdkit; gives the address for fio."""
    if shutil.which("nbdkit") is None:
        raise CharacteriseError(
            "nbdkit is not in the PATH, and makes stores slower: install it "
            "(Debian: apt install nbdkit)"
        )
    with tempfile.TemporaryDirectory(prefix=".intarsia-throttled-", dir=directory) as place:
        image, ready = Path(place) / "image", Path(place) / "ready"
        with open(image, "wb") as file:
            file.truncate(size_bytes)
        # The path of a socket is at most 107 bytes long, and that of a store may be longer.
        with tempfile.TemporaryDirectory(prefix="intarsia-") as short:
            socket, log = Path(short) / "nbd", Path(short) / "log"
            with open(log, "w") as said:
                command = _command(throttle, socket, ready, image)
                server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
            try:
                _await(server, ready, log)
                yield f"nbd+unix:///?socket={socket}"
            finally:
                server.terminate()
                server.wait()


def _command(throttle: Throttle, socket: Path, ready: Path, image: Path) -> list[str]:
    command = ["nbdkit", "--foreground", "--exit-with-parent", f"--unix={socket}"]
    command += [f"--pidfile={ready}", f"--threads={throttle.at_once}", "--filter=delay"]
    if throttle.bytes_per_second is not None:
        command.append("--filter=rate")
    command += ["file", str(image)]
    command += [f"{side}={throttle.delay_ms}ms" for side in ("rdelay", "wdelay")]
    if throttle.bytes_per_second is not None:
        # Without a word on bursts two seconds of bytes go through at once.
        command += [f"rate={round(8 * throttle.bytes_per_second)}", f"burstiness={_BURST_S:g}"]
    return command


def _await(server: subprocess.Popen[bytes], ready: Path, log: Path) -> None:
    limit = time.monotonic() + _START_LIMIT_S
    while not ready.exists():
        if server.poll() is not None:
            last = log.read_text().strip().splitlines()[-1:] or ["it said nothing"]
            raise CharacteriseError(f"nbdkit did not start: {last[0]}")
        if time.monotonic() > limit:
            raise CharacteriseError(f"nbdkit did not start within {_START_LIMIT_S:g} s")
        time.sleep(_POLL_S)
