"""Simulators for tests: the real one where it was built, and a stand-in that can be slow."""

import json
import subprocess
import sys
from pathlib import Path

from intarsia.store import StoreError, find_binary
from requirements import require

_STAND_IN = f"""#!{sys.executable}
import json, os, sys, time, tomllib
here = os.path.dirname(os.path.abspath(__file__))
words = sys.argv[1:]
if words == ["--version"]:
    sys.exit(print("intarsia 0.0.0"))
scenario = tomllib.loads(sys.stdin.read())
for word, value in zip(words, words[1:]):
    if word == "--set":
        name, _, text = value.partition("=")
        scenario |= tomllib.loads(f"{{json.dumps(name)}} = {{text}}")
nodes = scenario.get("machine.nodes", 1)
if nodes == 13:
    sys.exit("error: <stdin>:3:9: machine.nodes: 13 brings bad luck")
if "--dry-run" in words:
    sys.exit(print(json.dumps(scenario)))
with open(os.path.join(here, "runs"), "a") as runs:
    print(nodes, file=runs, flush=True)
time.sleep(float(os.environ.get("STAND_IN_SECONDS", "0")))
print(json.dumps({{
    "kind": words[1], "version": "0.0.0", "scenario": scenario, "seed": 1, "replications": 4,
    "derived": {{"mtbf": {{"value": 100.0, "unit": "s"}}}},
    "estimates": {{
        "efficiency": {{"mean": 1 / nodes, "half_width": 0.01, "n": 4, "unit": "share"}},
        "time": {{"mean": 2.0 * nodes, "half_width": None, "n": 4, "unit": "s"}},
    }},
    "run": {{"events": nodes, "wall_seconds": time.time()}},
}}))
"""


class StandIn:
    """A program with the command line of the simulator, which says what it was asked to run."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "intarsia"
        self.path.write_text(_STAND_IN)
        self.path.chmod(0o755)

    def runs(self) -> list[int]:
        log = self.path.parent / "runs"
        return [int(line) for line in log.read_text().split()] if log.exists() else []


def real_binary() -> Path:
    """Return the built binary; skip, or fail where every test is required, without one."""
    try:
        binary = find_binary()
        answer = subprocess.run([binary, "simulate", "presets", "--json"], capture_output=True)
        presets = json.loads(answer.stdout) if answer.returncode == 0 else []
        problem = None if presets else f"{binary} has no simulators: build it"
    except StoreError as error:
        problem = str(error)
    require(problem is None, str(problem))
    return binary
