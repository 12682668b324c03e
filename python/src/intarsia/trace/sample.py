"""What is known when only some tasks of each stage were traced."""

from __future__ import annotations

import math
import random
from collections import defaultdict

from intarsia.trace.workload import Operation, Task, Workload


def sample(workload: Workload, share: float, seed: int = 1) -> int:
    """Keep the computation of a `share` of the tasks of each stage, chosen by chance.

    Every other task gets that of one of these, as if nobody had recorded it: tasks of a stage run
    the same program. What tasks read and write stays, and says who is alike: tasks of a stage, in
    the order of the bytes that they move, are cut into as many groups as are kept, and one of each
    group stands for it. Returns how many tasks were kept; of each stage at least one.
    """
    if not 0 < share <= 1:
        raise ValueError(f"{share}: a share lies above 0, and 1 is all")
    by_stage: defaultdict[str, list[Task]] = defaultdict(list)
    for task in workload.tasks:
        by_stage[task.stage].append(task)
    draw = random.Random(seed)
    kept = 0
    for tasks in by_stage.values():
        count = math.ceil(share * len(tasks))
        # Who moves as much stands in an order of chance.
        order = sorted(draw.sample(tasks, len(tasks)), key=_moved_bytes)
        for number in range(count):
            group = order[number * len(order) // count : (number + 1) * len(order) // count]
            known = draw.choice(group)
            for task in group:
                if task is not known:
                    _compute(task, known.compute_s)
        kept += count
    return kept


def _moved_bytes(task: Task) -> int:
    return sum(one.size for one in task.operations if one.kind in ("read", "write"))


def _compute(task: Task, seconds: float) -> None:
    """Have a task compute for so long, at the places where it did, or before it writes first."""
    own = task.compute_s
    for one in task.operations:
        if one.kind == "compute":
            one.seconds *= seconds / own if own else 0.0
    if own or not seconds:
        return
    kinds = [one.kind for one in task.operations]
    place = kinds.index("write") if "write" in kinds else len(kinds)
    task.operations.insert(place, Operation("compute", seconds=seconds))
