"""Axes of figures."""

from __future__ import annotations

from matplotlib.axis import Axis
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter


def plain_log(axis: Axis, steps: tuple[float, ...] = (1, 2, 5)) -> None:
    """Label a logarithmic axis with plain numbers at these steps of each decade.

    Powers of ten at every minor tick overlap on an axis of one decade.
    """
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())
