"""Intarsia: intermediate storage for workflows."""

__version__ = "0.1.0"
