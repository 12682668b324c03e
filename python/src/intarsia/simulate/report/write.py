"""Writing a report: one HTML page that needs nothing else, with figures and tables beside it."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import jinja2
import pandas as pd
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from intarsia.simulate.files import write_atomically
from intarsia.simulate.report.document import Label, Plot, Report, Table
from intarsia.simulate.report.style import style

_LABELS = {str(label) for label in Label}
_LONG_TEXT = 28


def write_report(report: Report, directory: Path) -> Path:
    """Write `report.html`, `figures/*.svg`, `figures/*.png` and `tables/*.csv`; return the page."""
    pictures = {}
    for section in report.sections:
        for plot in section.plots:
            pictures[plot.name] = write_figure(plot.figure, directory / "figures" / plot.name)
        for table in section.tables:
            write_csv(table.frame, directory / "tables" / f"{table.name}.csv")
    page = directory / "report.html"
    write_atomically(page, _render(report, pictures).encode())
    return page


def write_figure(figure: Figure, stem: Path) -> bytes:
    """Write `stem`.svg and `stem`.png and return the SVG."""
    written = {}
    with style():
        for kind, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            content = io.BytesIO()
            figure.savefig(content, format=kind, metadata=metadata)
            written[kind] = content.getvalue()
            write_atomically(stem.with_name(f"{stem.name}.{kind}"), written[kind])
    return written["svg"]


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV."""
    write_atomically(path, frame.to_csv(index=False).encode())


def _render(report: Report, pictures: Mapping[str, bytes]) -> str:
    source = (files("intarsia.simulate.report") / "template.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )

    def image(plot: Plot) -> str:
        return "data:image/svg+xml;base64," + base64.b64encode(pictures[plot.name]).decode()

    return environment.from_string(source).render(report=report, image=image, grid=_grid)


def _grid(table: Table) -> Markup:
    """Return a table as HTML: words to the left, numbers to the right."""
    frame = table.frame
    words = {name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])}
    head = Markup("").join(
        Markup('<th class="{}">{}</th>').format("words" if name in words else "", name)
        for name in frame
    )
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                _cell(value, name in words) for name, value in zip(frame, row, strict=True)
            )
        )
        for row in frame.itertuples(index=False, name=None)
    )
    return Markup(
        "<table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>"
    ).format(table.caption, head, body)


def _cell(value: object, is_word: bool) -> Markup:
    text = number(value) if isinstance(value, float) else str(value)
    if text in _LABELS:
        return Markup('<td class="words"><span class="label label-{}">{}</span></td>').format(
            text, text
        )
    long = " long" if len(text) > _LONG_TEXT else ""
    return Markup('<td class="{}">{}</td>').format(f"words{long}" if is_word else "", escape(text))


def number(value: float) -> str:
    """Write a number for a person: four digits, no exponent where it can be avoided.

    >>> number(0.92634), number(26690.4), number(3.0), number(float("nan"))
    ('0.9263', '26,690', '3', '–')
    """
    if pd.isna(value):
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e3:
        return f"{value:.4g}"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.3e}"
