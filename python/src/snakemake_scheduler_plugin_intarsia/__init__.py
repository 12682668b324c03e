"""What Snakemake finds by the name of this package: `snakemake --scheduler intarsia`."""

from intarsia.engines.snakemake_scheduler import Scheduler, SchedulerSettings

__all__ = ["Scheduler", "SchedulerSettings"]
