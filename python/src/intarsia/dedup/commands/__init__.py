"""The commands of `intarsia forecast-dedup`, one file each."""
