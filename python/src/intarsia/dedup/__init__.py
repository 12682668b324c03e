"""What deduplication will bring: characterise full backups and forecast the store.

    from intarsia import dedup

    backups = [dedup.read_backup(path, dedup.Chunker()) for path in paths]
    observed = dedup.observe(backups)
    forecast = dedup.forecast(observed.bytes, horizon=10)
    print(forecast.points[-1].ratio)

Needs the extra `analysis` (`pip install 'intarsia[analysis]'`).
"""
