"""What deduplication will bring: characterise full backups and forecast the store.

    from pathlib import Path
    from intarsia import dedup

    backups = [dedup.read_backup(Path(name), dedup.Chunker()) for name in ("w1", "w2", "w3")]
    observed = dedup.observe(backups)
    forecast = dedup.forecast(observed.bytes, horizon=10)
    print(forecast.points[-1].ratio)

Needs the extra `analysis` (`pip install 'intarsia[analysis]'`).
"""

try:
    from intarsia.dedup.chunkers import Chunker
    from intarsia.dedup.forecast import Forecast, Method, forecast
    from intarsia.dedup.inputs import read_backup
    from intarsia.dedup.unseen import Estimate, estimate, estimate_counts
except ModuleNotFoundError as error:
    if error.name is None or error.name.startswith("intarsia"):
        raise
    raise ModuleNotFoundError(
        f"intarsia.dedup needs {error.name}: pip install 'intarsia[analysis]'", name=error.name
    ) from error
from intarsia.dedup.advice import data_class, merge, parts
from intarsia.dedup.classes import Classifier, Observed, observe
from intarsia.dedup.errors import DedupError
from intarsia.dedup.trace import Trace

__all__ = [
    "Chunker",
    "Classifier",
    "DedupError",
    "Estimate",
    "Forecast",
    "Method",
    "Observed",
    "Trace",
    "data_class",
    "estimate",
    "estimate_counts",
    "forecast",
    "merge",
    "observe",
    "parts",
    "read_backup",
]
