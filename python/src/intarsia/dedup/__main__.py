"""`python -m intarsia.dedup`: what `intarsia forecast-dedup` starts."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from intarsia.dedup.commands import (
    corpus,
    coverage,
    exclude,
    forecast,
    merge,
    sample,
    scan,
    study,
    throughput,
)
from intarsia.dedup.errors import DedupError

EXIT_FAILURE = 1
EXIT_INTERRUPTED = 130

_DESCRIPTION = """\
Forecast what deduplication brings: how large a store of full backups will be, from a few of them or
from a sample, what to leave out, what two data sets share, and how fast the store takes it in.
"""
_EXAMPLES = """\
examples:
  intarsia forecast-dedup scan /backup/monday --out monday.fp     a backup as a list, to keep
  intarsia forecast-dedup forecast w1.fp w2.fp w3.fp --horizon 10
  intarsia forecast-dedup sample /data --share 5%                 reads a twentieth of it
  intarsia forecast-dedup COMMAND --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="intarsia forecast-dedup",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (
        scan, forecast, sample, exclude, merge, throughput, corpus, coverage, study
    ):  # fmt: skip
        command.describe(commands)
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        chosen.run(chosen)
        sys.stdout.flush()
    except DedupError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILURE
    except BrokenPipeError:
        # Whoever read has enough; Python must not complain at its end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except OSError as error:
        print(f"error: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return EXIT_FAILURE
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
