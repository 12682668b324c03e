"""Studies: points, their results on disk, and the run over `dask.distributed`."""
