"""From samples to medians, ratios and a table."""

import csv
import fnmatch
import json
import statistics
from collections import defaultdict

PEERS = ("native", "floor", "floor-writeback", "bindfs")
FLOORS = ("floor", "floor-writeback")

# Workload, metric, system, peers, the least ratio to the best of these peers.
TARGETS = [
    ("fio-*", "*", "intarsia", ("native",), 0.95),
    ("fio-*", "*", "intarsia-writeback", ("floor-writeback",), 0.8),
    ("small-*", "*", "intarsia*", FLOORS, 0.8),
    # All but `idle` and the `mount` of `start`, which have limits of their own.
    ("[!i]*", "[!m]*", "intarsia*", ("bindfs",), 1.0),
]

# Workload, system, the most that its figure may be.
LIMITS = [("idle", "intarsia*", 0.3), ("start", "intarsia*", 2.0)]


def summarise(samples):
    """One row for each workload, metric and system, in the order in which they first appeared."""
    rows = []
    # Every cell times a start, so this one would otherwise stand between the others.
    groups = sorted(group(samples).items(), key=lambda item: item[0][0] == "start")
    for (workload, metric), by_system in groups:
        for system, found in by_system.items():
            rows.append(row(workload, metric, system, found, by_system))
    return rows


def group(samples):
    groups = defaultdict(dict)
    for sample in samples:
        key = (sample["workload"], sample["metric"])
        groups[key].setdefault(sample["system"], []).append(sample)
    return groups


def row(workload, metric, system, found, by_system):
    values = [sample["value"] for sample in found]
    return {
        "workload": workload,
        "metric": metric,
        "system": system,
        "mode": found[0]["mode"],
        "unit": found[0]["unit"],
        "n": len(values),
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "client_cpu_s": median_of(found, "client_cpu_s"),
        "server_cpu_s": median_of(found, "server_cpu_s"),
        "cpu_us_per_operation": median_of(found, "cpu_us_per_operation"),
        "server_peak_mib": median_of(found, "server_peak_mib"),
        "load": median_of(found, "load"),
        "ratios": {
            peer: ratio(found, by_system[peer])
            for peer in PEERS
            if peer in by_system and peer != system
        },
    }


def median_of(found, key):
    values = [sample[key] for sample in found if sample[key] is not None]
    return statistics.median(values) if values else None


def ratio(ours, theirs):
    """How many times better we are: the median over repetitions of the ratio within each.

    Both sides of each ratio ran minutes apart at most, so slow drifts of the machine cancel.
    """
    ours_by, theirs_by = by_repetition(ours), by_repetition(theirs)
    common = [repetition for repetition in ours_by if repetition in theirs_by]
    pairs = [(ours_by[repetition], theirs_by[repetition]) for repetition in common]
    if ours[0]["better"] == "less":
        pairs = [(their, our) for our, their in pairs]
    found = [over / under for over, under in pairs if under > 0]
    return statistics.median(found) if found else None


def by_repetition(samples):
    values = defaultdict(list)
    for sample in samples:
        values[sample["repetition"]].append(sample["value"])
    return {repetition: statistics.median(found) for repetition, found in values.items()}


def verdicts(rows):
    """How each row stands to its targets; the best of several peers is the one to meet."""
    by_place = {(row["workload"], row["metric"], row["system"]): row for row in rows}
    found = []
    for entry in rows:
        for workload, metric, system, peers, least in TARGETS:
            known = {
                peer: entry["ratios"][peer]
                for peer in peers
                if entry["ratios"].get(peer) is not None
            }
            if known and fits(entry, workload, metric, system):
                peer = min(known, key=known.get)
                rival = by_place[entry["workload"], entry["metric"], peer]
                found.append(verdict(entry, known[peer] >= least, compared(entry, rival, least)))
        for workload, system, most in LIMITS:
            if fits(entry, workload, "*", system):
                text = f"{number(entry['median'])} {entry['unit']} (at most {most})"
                found.append(verdict(entry, entry["median"] <= most, text))
    return found


def fits(entry, workload, metric, system):
    return (
        fnmatch.fnmatch(entry["workload"], workload)
        and fnmatch.fnmatch(entry["metric"], metric)
        and fnmatch.fnmatch(entry["system"], system)
    )


def verdict(entry, met, text):
    place = {key: entry[key] for key in ("workload", "metric", "system")}
    return {**place, "met": met, "text": text}


def compared(entry, rival, least):
    """The ratio of speed, and beside it that of processor time, which noise touches least."""
    text = f"{entry['ratios'][rival['system']]:.2f} of {rival['system']} (at least {least})"
    ours, theirs = entry["cpu_us_per_operation"], rival["cpu_us_per_operation"]
    return text + (f", CPU {ours / theirs:.2f} of its" if ours and theirs else "")


def table(rows):
    """The rows as text, one block for each figure."""
    columns = [
        "system",
        "n",
        "median",
        "min - max",
        *(f"/ {peer}" for peer in PEERS),
        "client CPU s",
        "server CPU s",
        "CPU us/op",
        "peak MiB",
        "load",
    ]
    lines, block = [], None
    for entry in rows:
        if (entry["workload"], entry["metric"]) != block:
            block = (entry["workload"], entry["metric"])
            better = "" if entry["unit"] != "s" else ", less is better"
            lines.append([f"{entry['workload']}: {entry['metric']} [{entry['unit']}{better}]"])
        lines.append(cells(entry))
    widths = [
        max(len(line[i]) for line in [columns, *lines] if len(line) > 1)
        for i in range(len(columns))
    ]
    return "\n".join(render(line, widths) for line in [columns, *lines])


def cells(entry):
    name = entry["system"] + (f" ({entry['mode']})" if entry["mode"] else "")
    ratios = [plain(entry["ratios"].get(peer), 2) for peer in PEERS]
    return [
        "  " + name,
        str(entry["n"]),
        number(entry["median"]),
        f"{number(entry['min'])} - {number(entry['max'])}",
        *ratios,
        plain(entry["client_cpu_s"], 3),
        plain(entry["server_cpu_s"], 3),
        plain(entry["cpu_us_per_operation"], 1),
        plain(entry["server_peak_mib"], 0),
        plain(entry["load"], 1),
    ]


def render(line, widths):
    if len(line) == 1:
        return "\n" + line[0]
    first = line[0].ljust(widths[0])
    return "  ".join([first, *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))])


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def plain(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def verdict_table(found):
    lines = [
        f"  {'met   ' if entry['met'] else 'MISSED'}  {entry['workload']}: {entry['metric']}, "
        f"{entry['system']}: {entry['text']}"
        for entry in sorted(found, key=lambda entry: entry["met"])
    ]
    met = sum(entry["met"] for entry in found)
    return "\n".join([f"targets: {met} of {len(found)} met", *lines])


def save(folder, result):
    """Writes results.json, samples.csv and table.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "table.txt").write_text(result["table"] + "\n")
    if result["samples"]:
        with open(folder / "samples.csv", "w", newline="") as stream:
            writer = csv.DictWriter(stream, fieldnames=list(result["samples"][0]))
            writer.writeheader()
            writer.writerows(result["samples"])
