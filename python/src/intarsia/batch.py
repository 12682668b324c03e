"""Where many files of one directory lie, asked of its mount in one call.

The call is `ioctl(2)` on the open directory. The buffer holds names, each ended by a zero byte and
the last one by two; it comes back with as many answers as fit, in the same form.
`docs/user/intarsia.h` has the same for programs in C.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence

BUFFER_BYTES = (1 << 14) - 4
# _IOWR('I', 1, char[BUFFER_BYTES]) of <linux/ioctl.h>.
_LOCATE = 3 << 30 | BUFFER_BYTES << 16 | ord("I") << 8 | 1


def answers(directory: str, names: Sequence[str]) -> Iterator[str]:
    """Yield what the mount says of each of `names` in `directory`, in their order.

    An answer is `LAYOUT size=BYTES [chunk=BYTES] hosts=HOST,…`; `errno=NUMBER`; or `other` for what
    is no regular file. Raises OSError where `directory` cannot be opened, is in no store (ENOTTY),
    or may not be searched, as far as the store can tell without knowing all groups of the caller
    (EACCES).
    """
    encoded = [os.fsencode(name) for name in names]
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        begin = 0
        while begin < len(encoded):
            asked = _fitting(encoded, begin)
            buffer = bytearray(b"".join(name + b"\0" for name in asked).ljust(BUFFER_BYTES, b"\0"))
            fcntl.ioctl(descriptor, _LOCATE, buffer)
            told = bytes(buffer).split(b"\0\0", 1)[0].split(b"\0")
            yield from (os.fsdecode(answer) for answer in told)
            begin += len(told)
    finally:
        os.close(descriptor)


def _fitting(names: Sequence[bytes], begin: int) -> Sequence[bytes]:
    """Return the names from `begin` on that fit into one call, each with a zero byte."""
    room = BUFFER_BYTES - 1
    end = begin
    while end < len(names) and len(names[end]) < room:
        room -= len(names[end]) + 1
        end += 1
    return names[begin:end]
