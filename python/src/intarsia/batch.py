"""Where many files of one directory lie, and hints for many, by one call of their mount.

The call is `ioctl(2)` on the open directory. The buffer holds names, each ended by a zero byte and
the last one by two, and before them the hints if there are any; it comes back with as many answers
as fit, in the same form.
`docs/user/intarsia.h` has the same for programs in C.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence

BUFFER_BYTES = (1 << 14) - 4
# _IOWR('I', 1, char[BUFFER_BYTES]) of <linux/ioctl.h>.
_LOCATE = 3 << 30 | BUFFER_BYTES << 16 | ord("I") << 8 | 1
_TAG = _LOCATE + 1


def answers(directory: str, names: Sequence[str]) -> Iterator[str]:
    """Yield what the mount says of each of `names` in `directory`, in their order.

    An answer is `LAYOUT size=BYTES [chunk=BYTES] hosts=HOST,…`; `errno=NUMBER`; or `other` for what
    is no regular file. Raises OSError where `directory` cannot be opened, is in no store (ENOTTY),
    or may not be searched, as far as the store can tell without knowing all groups of the caller
    (EACCES).
    """
    return _told(directory, _LOCATE, b"", names)


def tag(directory: str, names: Sequence[str], hints: Mapping[str, str]) -> Iterator[int]:
    """Give hints to what is in `directory`; yield an errno for each, 0 where it is done.

    EACCES is said of what belongs to another user, for who is not root. Raises OSError as `answers`
    does, and for hints that are none (EINVAL).
    """
    words = " ".join(f"{name}={value}" for name, value in hints.items())
    for answer in _told(directory, _TAG, words.encode() + b"\0", names):
        yield 0 if answer == "ok" else int(answer.removeprefix("errno="))


def _told(directory: str, call: int, first: bytes, names: Sequence[str]) -> Iterator[str]:
    encoded = [os.fsencode(name) for name in names]
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        begin = 0
        while begin < len(encoded):
            asked = _fitting(encoded, begin, BUFFER_BYTES - 1 - len(first))
            text = first + b"".join(name + b"\0" for name in asked)
            buffer = bytearray(text.ljust(BUFFER_BYTES, b"\0"))
            fcntl.ioctl(descriptor, call, buffer)
            told = bytes(buffer).split(b"\0\0", 1)[0].split(b"\0")
            yield from (os.fsdecode(answer) for answer in told)
            begin += len(told)
    finally:
        os.close(descriptor)


def _fitting(names: Sequence[bytes], begin: int, room: int) -> Sequence[bytes]:
    """Return the names from `begin` on that fit into so many bytes, each with a zero byte."""
    end = begin
    while end < len(names) and len(names[end]) < room:
        room -= len(names[end]) + 1
        end += 1
    return names[begin:end]
