"""What a built-in study consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from intarsia.simulate.report.document import Report
from intarsia.simulate.study.point import Point


@dataclass(frozen=True)
class BuiltIn:
    """A study that comes with the program."""

    name: str
    summary: str
    points: Callable[[bool], list[Point]]
    """The points; with `True`, few and short ones that show the shape in a minute."""
    report: Callable[[pd.DataFrame, dict[str, str]], Report]
    """The report on the results and the units of their columns."""
