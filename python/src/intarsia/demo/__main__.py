"""`python -m intarsia.demo`: run a real workflow natively and in a store, and compare."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from intarsia.demo import report
from intarsia.demo.blast import Blast
from intarsia.demo.montage import Montage
from intarsia.demo.progress import Progress
from intarsia.demo.session import Options, demonstrate
from intarsia.demo.trial import ResultsDifferError
from intarsia.demo.workflow import Workflow, WorkflowError
from intarsia.store import StoreError

_WORKFLOWS: dict[str, Callable[..., Workflow]] = {"montage": Montage, "blast": Blast}

EXIT_DIFFERENT = 1
EXIT_UNABLE = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; 0 means identical results and nothing left behind."""
    chosen = _parser().parse_args(arguments)
    options = _options(chosen)
    # A batch system ends jobs with SIGTERM; the store goes down then as it does after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    names = list(_WORKFLOWS) if chosen.workflow == "all" else [chosen.workflow]
    progress = Progress()
    outcomes = []
    try:
        for name in names:
            workflow = _WORKFLOWS[name](size=chosen.size)
            outcomes.append(demonstrate(workflow, chosen.size, options, progress))
            if not chosen.json:
                print(report.as_text(outcomes[-1]), flush=True)
    except ResultsDifferError as error:
        progress.stop()
        print(f"RESULTS DIFFER: {error}", file=sys.stderr)
        return EXIT_DIFFERENT
    except KeyboardInterrupt:
        progress.stop()
        print("interrupted; everything was taken down", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (StoreError, WorkflowError, OSError) as error:
        progress.stop()
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", []))
        print(f"error: {error}{notes}", file=sys.stderr)
        return EXIT_UNABLE
    if chosen.json:
        print(json.dumps([report.as_json(outcome) for outcome in outcomes], indent=2))
    return 0


def _options(chosen: argparse.Namespace) -> Options:
    return Options(
        scratch=chosen.scratch,
        out=chosen.out,
        rounds=chosen.rounds,
        mount=chosen.mount,
        passthrough=not chosen.no_passthrough,
        hosts=chosen.hosts,
        native_only=chosen.native_only,
        keep=chosen.keep,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m intarsia.demo", description=__doc__)
    parser.add_argument("workflow", choices=[*_WORKFLOWS, "all"])
    parser.add_argument("--size", choices=["tiny", "small", "medium"], default="small")
    parser.add_argument("--rounds", type=_positive, default=3, help="runs in each place (3)")
    parser.add_argument(
        "--scratch",
        type=Path,
        default=Path("build/demo"),
        help="where the native runs and the store's tier live, on one disk (build/demo)",
    )
    parser.add_argument("--mount", type=Path, help="mount point (a new one under --scratch)")
    parser.add_argument(
        "--out", type=Path, default=Path("build/demo"), help="where the picture goes (build/demo)"
    )
    parser.add_argument("--no-passthrough", action="store_true", help="write-back mode")
    parser.add_argument(
        "--hosts", type=_positive, default=1, help="a store over so many hosts of a lab (1)"
    )
    parser.add_argument("--native-only", action="store_true", help="no store, only native runs")
    parser.add_argument("--keep", action="store_true", help="leave all files where they are")
    parser.add_argument("--json", action="store_true", help="print a JSON summary")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
