"""Experiments: which knobs of a benchmark matter, with few runs."""

from intarsia.characterise.experiment.design import Design, design_for, plackett_burman
from intarsia.characterise.experiment.effects import Effect, important, main_effects
from intarsia.characterise.experiment.factors import Experiment, Factor, read_experiment

__all__ = [
    "Design",
    "Effect",
    "Experiment",
    "Factor",
    "design_for",
    "important",
    "main_effects",
    "plackett_burman",
    "read_experiment",
]
