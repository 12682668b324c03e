#!/usr/bin/env python3
"""Every table of the published study on stores, balancing and deduplication, by one command.

Knobs of fio and PostMark are screened in a directory (measured); models, intervals, aggregation and
balancing on simulated stores, deduplication on generated and, if they are given, real histories.
Raw samples stay in OUT; --redraw draws all tables, figures and verdicts again from them alone.

example:
  bench/published_stores.py --out results/published             hours; see --quick first
  bench/published_stores.py --out results/published --redraw
  bench/published_stores.py --out results/published --packages results/releases
"""

import csv
import html
import subprocess
import sys
from pathlib import Path

import command_line

PYTHON = [sys.executable, "-W", "ignore", "-m"]
STORES = [*PYTHON, "intarsia.characterise"]
DEDUP = [*PYTHON, "intarsia.dedup"]
TOOLS = {"fio": "fio-published", "postmark": "postmark"}


def parse_arguments():
    parser = command_line.parser(__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="raw samples, tables, figures, pages"
    )
    parser.add_argument(
        "--store", type=Path, default=Path("/tmp"), help="where fio and PostMark run (/tmp)"
    )
    parser.add_argument("--no-screens", action="store_true", help="neither fio nor PostMark")
    parser.add_argument(
        "--packages", type=Path, help="also releases of Python packages, by pip, unpacked here"
    )
    parser.add_argument(
        "--history", type=Path, action="append", default=[], help="backups; repeatable"
    )
    parser.add_argument("--quick", action="store_true", help="few and small samples: the shape")
    parser.add_argument("--redraw", action="store_true", help="from the raw samples in OUT alone")
    parser.add_argument("--seed", type=int, default=1, help="of all draws (1)")
    return parser.parse_args()


def run(*words):
    command = [str(word) for word in words]
    print("+", " ".join(command[3:]), file=sys.stderr, flush=True)
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        raise SystemExit(f"failed: {' '.join(command)}")


def screened(arguments):
    """Screen the knobs of both tools; what was measured before is not measured again."""
    found = []
    for name, knobs in TOOLS.items():
        out = arguments.out / "screens" / name
        if not arguments.no_screens and not arguments.redraw:
            short = ["--seconds", "0.5", "--repetitions", "1"] if arguments.quick else []
            run(*STORES, "screen", arguments.store, "--knobs", knobs, "--out", out, *short)
        if (out / "runs.jsonl").exists():
            found += [f"--{name}", out]
    return found


def draw(arguments):
    size = (
        ["--quick"] * arguments.quick + ["--redraw"] * arguments.redraw + ["--seed", arguments.seed]
    )
    stores = ["--oracle"] if not arguments.quick else []
    run(*STORES, "study", "--out", arguments.out / "stores", *screened(arguments), *stores, *size)
    histories = [word for path in arguments.history for word in ("--history", path)]
    packages = ["--packages", arguments.packages] if arguments.packages else []
    run(*DEDUP, "study", "--out", arguments.out / "dedup", *packages, *histories, *size)


def verdicts(out):
    for part in ("stores", "dedup"):
        with open(out / part / "tables" / "claims.csv", newline="") as file:
            for row in csv.reader(file):
                if row[0] and row[4] != "verdict":
                    yield part, row[0], row[1], row[2], row[4]


def write_index(out):
    """Write a page that leads to both reports, with every verdict; print how many there are."""
    rows = list(verdicts(out))
    cells = "\n".join(
        f"<tr><td><a href='{part}/report.html'>{part}</a>"
        + "".join(f"<td>{html.escape(text)}" for text in rest)
        for part, *rest in rows
    )
    page = out / "index.html"
    page.write_text(
        "<!doctype html><meta charset=utf-8><title>The published study, redrawn</title>\n"
        "<style>body{font:14px sans-serif;margin:2em}td,th{vertical-align:top;text-align:left;padding:.3em .8em}"
        "tr:nth-child(even){background:#f4f4f4}</style>\n"
        "<h1>The published study, redrawn</h1>\n"
        f"<table><tr><th>report<th><th>published<th>here<th>verdict\n{cells}\n</table>\n"
    )
    counts = {}
    for *_, verdict in rows:
        counts[verdict] = counts.get(verdict, 0) + 1
    print(
        f"{len(rows)} statements: " + ", ".join(f"{count} {name}" for name, count in counts.items())
    )
    print(page)


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    draw(arguments)
    write_index(arguments.out)


if __name__ == "__main__":
    main()
