"""What a load is: read share, randomness, sizes, outstanding requests, seeks, from traces."""

from intarsia.characterise.workload.formats import Format, read
from intarsia.characterise.workload.records import Records
from intarsia.characterise.workload.windows import Summary, Window, summarise, windows

__all__ = ["Format", "Records", "Summary", "Window", "read", "summarise", "windows"]
