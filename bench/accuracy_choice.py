"""How good a choice by predictions of bench/accuracy.py is, beside choices that need no model.

A group is what a user chooses among: rows that differ in the axes of the choice alone. *Regret* is how much longer what was chosen took
than the best one measured; Kendall's tau-b says how far two orders agree, of groups of at least `MANY` rows.
"""

import itertools
import random
import statistics

from scipy import stats

import accuracy_cells

CELL = ("system", "hosts", "link", "medium", "slots")
#: A recommendation is as good as the best if what it recommends took so much more at most.
AS_GOOD = 1.05
#: Rows that have an order worth a coefficient.
MANY = 8
#: What stores do without a word, and what this store does.
DEFAULT_LAYOUTS = ("local", "own")


def middle(row):
    """What runs took: the median, or, where chance says on which hosts tasks run, the mean, which is predicted."""
    by_chance = row["hosts"] and row["system"] not in accuracy_cells.SAYS_WHERE
    return (statistics.mean if by_chance else statistics.median)(row["measured"])


def naive_s(work, cell, profile):
    """Bytes that tasks read and write by the bandwidth of all links together, or, on one host, of its first tier."""
    sizes = {file["name"]: file["size_bytes"] for file in work["files"]}
    moved = sum(moved_bytes(operation, sizes) for task in work["tasks"] for operation in operations(task))
    if cell["link"]:
        return moved / (cell["hosts"] * float(cell["link"].removesuffix("mbit")) * 1e6 / 8)
    return moved / profile["tiers"][0]["read"]["bytes_per_second"]


def operations(task):
    """What a task does, each with the file that it reads or writes."""
    return task.get("operations") or [{"read": file} for file in task.get("reads", [])] + [{"write": file} for file in task.get("writes", [])]


def moved_bytes(operation, sizes):
    """Bytes of one operation."""
    file = operation.get("read") or operation.get("write")
    return operation.get("size_bytes", sizes[file]) if file else 0


def show(found):
    """Print how good choices are, of each kind that the rows allow."""
    layouts = [axis for axis in ("layout",) if len({row[axis] for row in found}) > 1]
    for choice in [layouts, [*layouts, "hosts"], ["system"], ["system", "slots", "medium"], [*layouts, "hosts", "link"]]:
        if choice and any(len({row[axis] for row in found}) > 1 for axis in choice):
            recommendations(found, choice)


def groups(found, choice):
    """Rows that differ in what is chosen alone, where there is a choice."""
    fixed = [axis for axis in (*CELL, "pattern", "size", "layout") if axis not in choice]
    of = {}
    for row in found:
        of.setdefault(tuple(row[axis] for axis in fixed), []).append(row)
    return [rows for rows in of.values() if len(rows) > 1]


def recommendations(found, choice):
    """Say what choosing by predictions costs, beside other choices, and how far orders agree."""
    some = groups(found, choice)
    if not some:
        return
    print(f"\nchoosing {' and '.join(choice)}, {len(some)} times")
    told = {"predictions": lambda row: row["predicted"][0], "bytes / bandwidth": lambda row: row["naive"]}
    if all("simgrid" in row for row in found):
        told["SimGrid"] = lambda row: row["simgrid"]
    draw = random.Random(0)
    ways = {f"by {name}": lambda rows, by=by: min(rows, key=by) for name, by in told.items()}
    ways |= {"the default": default, "any": draw.choice}
    for name, way in ways.items():
        regrets = [middle(way(rows)) / min(map(middle, rows)) for rows in some]
        good = sum(regret <= AS_GOOD for regret in regrets)
        line = f"  {name:20} within {AS_GOOD - 1:.0%} of the best measured in {good} of {len(some)} ({good / len(some):.0%}), worst {max(regrets) - 1:.0%} slower"
        print(line + (orders(some, told[name[3:]]) if name.startswith("by ") else ""))
    right, pairs = in_order(some)
    print(f"  order of pairs whose runs do not overlap: {right} of {pairs}")


def default(rows):
    """Most hosts and no word of where files go; the first where there is no such one."""
    own = [row for row in rows if row["layout"] in DEFAULT_LAYOUTS] or rows
    return max(own, key=lambda row: row["hosts"] or 0)


def orders(some, by):
    """Kendall's tau between what is said and what was measured, over groups that are large enough."""
    taus = [stats.kendalltau([by(row) for row in rows], [middle(row) for row in rows]).statistic for rows in some if len(rows) >= MANY]
    taus = [tau for tau in taus if tau == tau]
    return f"; tau {statistics.median(taus):.2f} in the median, {min(taus):.2f} at least" if taus else ""


def in_order(some):
    """Of pairs whose runs do not overlap, those that are predicted in the right order, and all."""
    right = pairs = 0
    for rows in some:
        for a, b in itertools.combinations(rows, 2):
            if max(a["measured"]) < min(b["measured"]) or max(b["measured"]) < min(a["measured"]):
                pairs += 1
                right += (a["predicted"][0] < b["predicted"][0]) == (middle(a) < middle(b))
    return right, pairs
