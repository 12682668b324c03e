"""`python -m intarsia.characterise`: measure stores, model them, balance loads over them."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence

from intarsia.characterise.errors import CharacteriseError

EXIT_FAILURE = 1
EXIT_INTERRUPTED = 130

_EXAMPLES = """\
a session:
  python -m intarsia.characterise measure fc-raid5 --out fast.csv     measure a (simulated) store
  python -m intarsia.characterise fit fast.csv --out fast.json        its model
  python -m intarsia.characterise predict fast.json --load 75,95,4k,2 its latency, with interval
  python -m intarsia.characterise balance pool.toml                   which load should move where
"""


_COMMANDS = (
    "workload",
    "stores",
    "measure",
    "fit",
    "check",
    "predict",
    "compare",
    "speeds",
    "balance",
    "migrate",
    "screen",
    "coverage",
    "trial",
    "study",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m intarsia.characterise",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    given = _of_binary(sys.argv[1:] if arguments is None else arguments)
    for name in _needed(given):
        importlib.import_module(f"intarsia.characterise.commands.{name}").add_parser(commands)
    chosen = parser.parse_args(given)
    # A batch system ends jobs with SIGTERM, which is to leave things as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        chosen.run(chosen)
    except CharacteriseError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILURE
    except OSError as error:
        print(f"error: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return EXIT_FAILURE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def _of_binary(arguments: Sequence[str]) -> list[str]:
    """Return the command for a verb of the binary."""
    words: dict[str, list[str]] = {
        "characterise": [],
        "model": ["fit"],
        "balance-stores": ["balance"],
    }
    return [*words.get(arguments[0], arguments[:1]), *arguments[1:]] if arguments else []


def _needed(arguments: Sequence[str]) -> Sequence[str]:
    """Return the command that is given, alone: importing all of them takes seconds."""
    return arguments[:1] if arguments and arguments[0] in _COMMANDS else _COMMANDS


if __name__ == "__main__":
    sys.exit(main())
