"""Which release of Intarsia this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """Return the version of the package that is installed, `unknown` where none is."""
    try:
        return version("intarsia")
    except PackageNotFoundError:
        return "unknown"
