"""Which network does a file system need? Stores on a torus, a fat tree and a dragonfly."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from intarsia.simulate.report.document import Label, Plot, Report, Section, Table
from intarsia.simulate.report.style import (
    BLUE,
    GREEN,
    VERMILION,
    count,
    figure,
    legend_below,
    node_axis,
    style,
)
from intarsia.simulate.scenario import Scenario
from intarsia.simulate.studies.built_in import BuiltIn
from intarsia.simulate.study.point import Point

_NETWORKS = {"torus": "torus", "fat-tree": "fat tree", "dragonfly": "dragonfly"}
_COLOURS = {"torus": VERMILION, "fat-tree": GREEN, "dragonfly": BLUE}
_MARKERS = {"torus": "^", "fat-tree": "s", "dragonfly": "o"}
_SYSTEMS = {"local-first": "local-first", "striped": "striped"}

# Striping sends every byte over the network; its shape is plain long before it becomes slow.
_LARGEST_STRIPED = 1_024

# Device and metadata of the preset modern-dragonfly, which gives their sources.
_DEVICE = {
    "device_write": "3.72 GB/s",
    "device_read": "7.97 GB/s",
    "device_request": "20 us",
    "call": "10 us",
    "control_message": "256 B",
}
_METADATA = {
    "create": "50 us",
    "lookup": "25 us",
    "update": "50 us",
    "remove": "50 us",
    "append": "5 us",
}

# Every network gets the same links; only the way they are laid differs.
_LINKS = {
    "link_rate": "25 GB/s",
    "link_latency": "400 ns",
    "message_latency": "2 us",
    "barrier_level": "2 us",
}
_PATTERNS = {
    "own": "its own part",
    "neighbour": "its neighbour's part",
    "permutation": "a part from afar",
}


def _points(is_quick: bool) -> list[Point]:
    sizes = (64, 512) if is_quick else (64, 256, 1_024, 4_096, 16_384)
    return [
        _point(network, system, pattern, nodes)
        for network in _NETWORKS
        for system in _SYSTEMS
        # In a striped store every part lies everywhere.
        for pattern in (_PATTERNS if system == "local-first" else ("own",))
        for nodes in sizes
        if system == "local-first" or nodes <= _LARGEST_STRIPED
    ]


def _point(network: str, system: str, pattern: str, nodes: int) -> Point:
    striped = {"chunk": "1 MiB", "width": "all"} if system == "striped" else {}
    scenario = {
        "nodes": {"count": nodes},
        "system": {"kind": system, **_DEVICE, **striped, "metadata": _METADATA},
        "network": {"kind": network, **_LINKS},
        "workload": {"kind": "ior", "transfer": "4 MB", "transfers": 16, "from": pattern},
        "run": {"replications": 1},
    }
    labels = {"network": network, "system": system, "pattern": pattern, "nodes": nodes}
    return Point("scale", Scenario.load(scenario), labels)


def _report(frame: pd.DataFrame, units: dict[str, str]) -> Report:
    del units  # B/s and shares
    return Report(
        title="Which network does a file system need?",
        summary=(_summary(frame),),
        sections=(
            Section(
                "Reading back one shared file",
                text=(
                    "Every node writes 64 MB of a shared file and reads 64 MB of it back, in "
                    "transfers of 4 MB. All networks have the same links of 25 GB/s; storage and "
                    "metadata are those of the preset modern-dragonfly, an assumption for a "
                    "machine of today. From afar means that every node reads another one's part, "
                    "by a random permutation. A local-first store keeps what a node writes on its "
                    "own device; a striped one cuts every part into chunks of 1 MiB over all "
                    "nodes. The groups of the dragonfly follow the number of nodes by whole "
                    "routers, so that its curves are not smooth.",
                ),
                plots=(
                    Plot(
                        "read-rate",
                        "Rate at which a node reads, by network; simulated with congestion of "
                        "links.",
                        _draw(frame, "read.throughput"),
                    ),
                    Plot(
                        "write-rate",
                        "Rate at which a node writes; a local-first store uses no link for it.",
                        _draw(frame, "write.throughput"),
                    ),
                ),
                tables=(_table(frame),),
            ),
        ),
    )


def _summary(frame: pd.DataFrame) -> str:
    largest = frame[frame["pattern"] == "permutation"]["nodes"].max()
    part = frame[(frame["nodes"] == largest) & (frame["pattern"] == "permutation")]
    rates = part.set_index("network")["read.throughput"] / largest / 1e9
    shown = ", ".join(f"{_NETWORKS[network]} {rates[network]:.2f} GB/s" for network in _NETWORKS)
    return (
        f"On {count(largest)} nodes, where each reads a part from afar, a node reads at: "
        f"{shown}. What a node wrote itself it reads at the rate of its device on every network."
    )


def _draw(frame: pd.DataFrame, column: str) -> Figure:
    with style():
        cases = [("local-first", pattern) for pattern in _PATTERNS] + [("striped", "own")]
        made, panels = figure(2, 2, sharey=True)
        for panel, (system, pattern) in zip(panels, cases, strict=True):
            part = frame[(frame["system"] == system) & (frame["pattern"] == pattern)]
            for network, name in _NETWORKS.items():
                curve = part[part["network"] == network].sort_values("nodes")
                panel.plot(
                    curve["nodes"], curve[column] / curve["nodes"] / 1e9, label=name,
                    color=_COLOURS[network], marker=_MARKERS[network],
                )  # fmt: skip
            panel.set_ylim(0, 1.1 * (frame[column] / frame["nodes"]).max() / 1e9)
            what = _PATTERNS[pattern] if system == "local-first" else "its own part"
            panel.set_title(f"{_SYSTEMS[system]}: {what}")
            node_axis(panel, frame["nodes"])
        for panel in panels[::2]:
            panel.set_ylabel("rate of a node (GB/s)")
        legend_below(made, panels[0])
        return made


def _table(frame: pd.DataFrame) -> Table:
    table = pd.DataFrame(
        {
            "network": [_NETWORKS[network] for network in frame["network"]],
            "store": [_SYSTEMS[system] for system in frame["system"]],
            "each reads": [_PATTERNS[pattern] for pattern in frame["pattern"]],
            "nodes": [count(nodes) for nodes in frame["nodes"]],
            "write (GB/s a node)": frame["write.throughput"] / frame["nodes"] / 1e9,
            "read (GB/s a node)": frame["read.throughput"] / frame["nodes"] / 1e9,
            "99 % of reads within (ms)": 1e3 * frame["read.latency_p99"],
            "label": str(Label.SIMULATED),
        }
    )
    return Table("networks", "Rates and latencies.", table.round(3))


NETWORKS = BuiltIn(
    "networks", "stores on torus, fat tree and dragonfly, with congestion", _points, _report
)
