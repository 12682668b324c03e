"""Standard streams, which who began this program may have closed, or may not read to the end."""

from __future__ import annotations

import io
import os
import sys

_OUTPUT = "standard output"


def open_streams() -> None:
    """Have all three be there: else what is opened next takes their place, and what they say.

    Names of files may have letters that an output cannot show.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def print_whole(text: str) -> None:
    """Print on standard output, or raise OSError that names it; nothing is printed after that."""
    try:
        print(text, flush=True)
    except OSError as error:
        raise spoiled(error) from None


def spoiled(error: OSError) -> OSError:
    """Return what is wrong with standard output, which takes no more."""
    # What it still holds would fail once more at the end.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return OSError(error.errno, error.strerror, _OUTPUT)
