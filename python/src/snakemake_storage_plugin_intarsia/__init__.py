"""What Snakemake finds by the name of this package: `--default-storage-provider intarsia`."""

from intarsia.engines.snakemake_storage import StorageObject, StorageProvider

__all__ = ["StorageObject", "StorageProvider"]
