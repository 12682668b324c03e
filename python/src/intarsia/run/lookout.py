"""Looks again and again whether a directory is still in its store, for those who must not hang.

A call into a mount may take as long as its node does, and no process ends while one of its threads
is in such a call. So this process makes the calls. It prints a line for each look: `ok DEVICE`,
`gone WHY`, or `fails WHY`; it ends when nobody reads that any more. Run by itself:
`python -I -S lookout.py DIRECTORY STORE`.
"""

import errno
import itertools
import json
import os
import sys
import time

#: What is told of a mount whose process has ended: calls fail, and lead nowhere else.
ENDED = "its node has ended"
_EVERY_S = 1.0
_NODE_ENDED = (errno.ENOTCONN, errno.ECONNABORTED)
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)
_NOT_MOUNTED = (errno.ENODATA, errno.EOPNOTSUPP)


def look(directory: str, store: str, number: int) -> str:
    """Return what there is to see, in one line."""
    try:
        told = json.loads(os.getxattr(directory, "user.intarsia.node"))
        if told.get("store") != store:
            return "gone another store is there"
        device = os.stat(directory).st_dev  # noqa: PTH116 - this begins with little
        # No cache knows this name: a server of metadata has to answer, or a lease on it holds.
        _miss(f"{directory}/.intarsia-lookout-{os.getpid()}-{number}")
    except OSError as error:
        if error.errno in _NODE_ENDED:
            return f"gone {ENDED}"
        if error.errno in _NOT_THERE:
            return f"gone {directory!r} is not there"
        if error.errno in _NOT_MOUNTED:
            return "gone it is not mounted"
        return f"fails {error.strerror}"
    return f"ok {device}"


def _miss(path: str) -> None:
    """Find out that a file is not there; raises OSError where nobody can tell."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return


def main() -> None:
    """Look and tell, until nobody listens."""
    directory, store = sys.argv[1:3]
    for number in itertools.count():
        try:
            print(look(directory, store, number), flush=True)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return
        time.sleep(_EVERY_S)


if __name__ == "__main__":
    main()
