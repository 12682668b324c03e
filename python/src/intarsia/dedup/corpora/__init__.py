"""Backups with churn: generated fingerprints, generated files, and histories of packages."""
