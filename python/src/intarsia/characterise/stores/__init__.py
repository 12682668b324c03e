"""Simulated data stores: mechanisms with known truth, run by the `intarsia` binary."""

from intarsia.characterise.stores.simulated import (
    Measured,
    Settings,
    StreamMeasured,
    measure,
    preset,
    presets,
)

__all__ = ["Measured", "Settings", "StreamMeasured", "measure", "preset", "presets"]
