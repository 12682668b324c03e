"""Real workflows, run once on the native file system and once inside a store, and compared."""
