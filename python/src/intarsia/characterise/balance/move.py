"""A move of one load, and the sentence that explains it."""

from __future__ import annotations

from dataclasses import dataclass

from intarsia.characterise.load import Load
from intarsia.characterise.units import duration_text, size_text


@dataclass(frozen=True)
class Move:
    """One load to move, and why."""

    name: str
    source: str
    target: str
    source_before_ms: float
    source_after_ms: float
    target_before_ms: float
    target_after_ms: float
    probability: float
    """That the objective falls."""
    gain_ms: float
    """Of the objective."""
    copy_s: float
    pays_back_s: float
    """From the start of the copy until what was lost during it is made up for."""
    sentence: str


def sentence_of(move: Move, load: Load, size_bytes: float) -> str:
    """Say what a move does, what it costs and how sure it is."""
    falls, rises = move.source_before_ms, move.target_before_ms
    copying, paid_back = duration_text(move.copy_s), duration_text(move.pays_back_s)
    return (
        f"Move {move.name} ({size_text(load.bytes)}, {load.read:.0f} % read, {load.random:.0f} % "
        f"random, {load.outstanding:g} outstanding) from {move.source} to {move.target}: "
        f"{move.source} goes from {falls:.3g} to {move.source_after_ms:.3g} ms, {move.target} "
        f"from {rises:.3g} to {move.target_after_ms:.3g} ms; copying {size_text(size_bytes)} takes "
        f"{copying} and has paid back after {paid_back}; it helps with a probability of "
        f"{move.probability:.0%}."
    )
