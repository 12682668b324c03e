"""What benchmarks log beside their figures, and figures that are kept from one run to the next."""

import json
import lzma
import subprocess
from pathlib import Path

import labs


def commit():
    """What is measured."""
    asked = ["git", "-C", str(labs.ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


def busy_s():
    """Seconds that all processors have worked, and that they had."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / labs.TICKS, sum(fields) / labs.TICKS


def busy_share(before):
    """The share of the processors' time that they have worked since `busy_s` said `before`."""
    busy, had = (now - then for now, then in zip(busy_s(), before))
    return busy / max(1e-9, had)


def remembered(path):
    """The measurements in a file."""
    if path is None or not Path(path).exists():
        return []
    opened = lzma.open(path, "rt") if Path(path).suffix == ".xz" else open(path)
    with opened as file:
        return [json.loads(line) for line in file]


def those(found, case):
    """The measurements of a case."""
    return [one for one in found if all(one.get(name) == value for name, value in case.items())]


def holds(found, case):
    """Whether a case was measured."""
    return bool(those(found, case))


def keep(found, measured, path):
    """Add a measurement, also to the file if there is one."""
    found.append(measured)
    if path:
        with open(path, "a") as file:
            file.write(json.dumps(measured) + "\n")
