"""The commands behind `intarsia simulate study|fit|report`, one file each."""
