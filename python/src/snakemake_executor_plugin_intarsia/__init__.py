"""What Snakemake finds by the name of this package: `snakemake --executor intarsia`."""

from intarsia.engines.snakemake import Executor, ExecutorSettings, common_settings

__all__ = ["Executor", "ExecutorSettings", "common_settings"]
