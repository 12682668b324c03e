"""`python -m intarsia.simulate`: what `intarsia simulate study|fit|report` starts."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from intarsia.simulate.binary import SimulationError
from intarsia.simulate.commands import fit, report, study
from intarsia.simulate.failures import RecordError

EXIT_FAILURE = 1
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="intarsia simulate", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (study, fit, report):
        command.add_parser(commands)
    chosen = parser.parse_args(arguments)
    # A batch system ends jobs with SIGTERM; a study then stops as it does after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        chosen.run(chosen)
    except (SimulationError, RecordError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILURE
    except OSError as error:
        print(f"error: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return EXIT_FAILURE
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
