"""Published figures that the studies are held against, each with its source."""

from __future__ import annotations

import math

from intarsia.simulate.report.document import Source

RXSIM = Source(
    "RXSim",
    "D. Zhao, D. Zhang, K. Wang, I. Raicu, “Exploring reliability of exascale systems through "
    "simulations”, HPC 2013, and D. Zhao, “Big data system infrastructure at extreme scales”, PhD "
    "thesis, Illinois Institute of Technology, 2015, chapter 2. The text gives single values and "
    "shapes; the plots themselves were not available.",
)
EQUATIONS = Source(
    "equations",
    "An independent evaluation of the published equations [RXSim] made before this simulator "
    "existed: one stream of full-machine jobs of 7 days, exponential failures, five years. The "
    "published text holds only if the logarithm of the bandwidth of node-local storage has base 2 "
    "and its result is in MB/s.",
)
FUSIONSIM = Source(
    "FusionSim",
    "D. Zhao, “Big data system infrastructure at extreme scales”, PhD thesis, Illinois Institute "
    "of Technology, 2015, chapter 9. The constants of the model are not published.",
)
LANL = Source(
    "LANL",
    "Los Alamos National Laboratory, release LA-UR-05-7318, 23,739 node outages of 1996 to 2005; "
    "B. Schroeder, G. A. Gibson, “A large-scale study of failures in high-performance computing "
    "systems”, DSN 2006. Fitted by intarsia simulate fit.",
)
LLAMA = Source(
    "Llama 3",
    "Llama Team, AI @ Meta, “The Llama 3 herd of models”, 2024, section 3.3.4: 419 unexpected "
    "interruptions in 54 days on 16,384 GPUs, one in 3.1 h; with 8 GPUs a node, 0.72 years a node.",
)
YOUNG = Source("Young", "J. W. Young, CACM 17(9), 1974: interval √(2CM).")
DALY = Source(
    "Daly",
    "J. T. Daly, “A higher order estimate of the optimum checkpoint interval for restart dumps”, "
    "FGCS 22(3), 2006; the optimum under exponential failures is M(1 + W(−e^(−C/M − 1))).",
)

NODES_OF_TABLE = (1_024, 8_192, 65_536, 131_072, 262_144, 409_600, 524_288, 1_048_576, 2_097_152)
"""Machines of the independent evaluation of the published equations."""

EFFICIENCY_BY_EQUATIONS = {
    "none": (0.985, 0.910, 0.491, 0.176, 0.023, 0.0, 0.0, 0.0, 0.0),
    "pfs": (0.989, 0.970, 0.909, 0.812, 0.640, 0.471, 0.349, 0.061, 0.0),
    "dfs": (0.999, 0.997, 0.994, 0.989, 0.979, 0.969, 0.961, 0.926, 0.863),
}
"""Efficiency for full-machine jobs of 7 days on `NODES_OF_TABLE`."""

EFFICIENCY_BY_EQUATIONS_ELSEWHERE = {
    ("tenth", "none", 1_048_576): 0.275,
    ("tenth", "pfs", 1_048_576): 0.764,
    ("tenth", "dfs", 1_048_576): 0.977,
    ("tenth", "dfs", 2_097_152): 0.957,
    ("day", "none", 1_048_576): 0.066,
    ("day", "pfs", 1_048_576): 0.060,
    ("day", "dfs", 1_048_576): 0.926,
}
"""The same by workload, storage and nodes for the other workloads."""

_NODE_MTBF_SECONDS = 1_000 * 365 * 86_400


def interval_with_machine_mtbf(storage: str, nodes: int, share: float) -> float:
    """Return Daly's interval of 2003 with the MTBF of the whole machine, in seconds.

    For a job on a `share` of `nodes`; checkpoint time and reboot are the published model's. The job
    itself fails less often than the machine, so that this interval is too short for it.
    """
    memory_mb = 2_000 * max(nodes / 65_536, 1)
    if storage == "pfs":
        checkpoint = memory_mb * share
        reboot = math.ceil(0.0254 * nodes + 55.296)
    else:
        checkpoint = memory_mb / math.log2(nodes) ** 2
        reboot = 85
    mtbf = _NODE_MTBF_SECONDS / nodes
    return math.sqrt(2 * checkpoint * (mtbf + reboot)) - checkpoint


# Checkpoint cost (= restart) and MTBF in seconds; interval by Young, Daly, exactly; efficiency at
# each; computed from the formulas [Young], [Daly].
INTERVALS = (
    (60, 86_400, 3_220, 3_180, 3_180, 0.9625, 0.9625, 0.9625),
    (300, 86_400, 7_200, 7_001, 7_001, 0.9158, 0.9158, 0.9158),
    (300, 21_600, 3_600, 3_403, 3_403, 0.8306, 0.8308, 0.8308),
    (300, 3_600, 1_470, 1_276, 1_277, 0.5916, 0.5937, 0.5937),
    (600, 3_600, 2_078, 1_698, 1_699, 0.4425, 0.4469, 0.4469),
    (1_200, 3_600, 2_939, 2_194, 2_200, 0.2711, 0.2787, 0.2787),
    (5, 3_600, 190, 186, 186, 0.9469, 0.9469, 0.9469),
    (60, 900, 329, 290, 290, 0.6325, 0.6342, 0.6342),
)
