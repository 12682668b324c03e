"""What a report consists of: sections with text, tables and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import pandas as pd
from matplotlib.figure import Figure


class Label(StrEnum):
    """Where figures come from; every table and curve carries one."""

    SIMULATED = "simulated"
    ANALYTIC = "analytic"
    PUBLISHED = "published"
    MEASURED = "measured"


@dataclass(frozen=True)
class Source:
    """Where published figures were taken from."""

    key: str
    text: str


@dataclass(frozen=True)
class Table:
    """A table; units stand in the headings."""

    name: str
    caption: str
    frame: pd.DataFrame


@dataclass(frozen=True)
class Plot:
    """A figure and the numbers it shows."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """A part of a report; each entry of `text` is a paragraph."""

    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()


@dataclass(frozen=True)
class Report:
    """A report, ready to be written."""

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    sources: tuple[Source, ...] = ()
    made_with: dict[str, str] = field(default_factory=dict)
    """What is needed to make it again: command, versions, seed."""
