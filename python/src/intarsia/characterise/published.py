"""Tables of the published work on Romano, as truths to calculate with and baselines to compare.

N. Park: Statistical characterization of storage workloads. PhD dissertation, University of
Minnesota, 2013.
"""

from __future__ import annotations

from intarsia.characterise.load import Load

COEFFICIENTS: dict[str, dict[str, float]] = {
    "E1": {
        "O": 1.064,
        "RO": 2.828e-2,
        "ZO": 1.505e-5,
        "XRO": 2.277e-3,
        "XZO": 2.545e-7,
        "XRZO": 9.385e-9,
    },
    "E2": {"O": 0.8370, "XO": 6.163e-3, "ZO": 1.172e-5, "XRO": 4.079e-4, "XZO": 9.970e-8},
    "N1": {
        "O": 1.428,
        "XO": 0.1653,
        "ZO": 1.293e-4,
        "XRO": -3.24e-4,
        "XZO": 2.052e-6,
        "XRZO": 2.613e-8,
    },
    "N2": {"O": 1.310, "XO": 0.1403, "ZO": 9.078e-5, "XRO": 1.579e-6, "XRZO": 1.514e-8},
}
"""Table 5.4: ms for each product of random %, read %, bytes and outstanding, by store."""

PESTO_SLOPES = {"E1": 25.798101, "E2": 4.922433, "N1": 16.666000, "N2": 6.753044}
"""Table 5.6: ms for each outstanding 4 KiB random read."""

BASIL_RECALLED = (1.3, 51.0, 1.4, 0.7)
"""K1 to K4 of the form by Gulati et al. (FAST 2010), sizes in KiB, as they are commonly quoted."""

_KIB = 1024.0
LOADS: dict[str, tuple[float, float, float]] = {
    "web-file-4k": (75, 95, 4 * _KIB),
    "web-file-8k": (75, 95, 8 * _KIB),
    "web-file-64k": (75, 95, 64 * _KIB),
    "support-db": (100, 100, 1024 * _KIB),
    "media": (0, 98, 64 * _KIB),
    "sql-log": (0, 0, 64 * _KIB),
    "web-log": (100, 0, 8 * _KIB),
    "oltp": (100, 70, 8 * _KIB),
    "exchange": (100, 67, 4 * _KIB),
    "workstation": (80, 80, 8 * _KIB),
    "vod": (100, 100, 512 * _KIB),
}
"""Table 6.1: random %, read % and bytes of usual loads."""


def load(name: str, outstanding: float) -> Load:
    """Return a usual load with so many requests outstanding."""
    return Load(*LOADS[name], outstanding)
