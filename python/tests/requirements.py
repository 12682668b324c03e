"""What a test needs and may not find: it says so, or fails where every test must run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from intarsia.store import StoreError, find_binary


def require(condition: object, reason: str) -> None:
    """Skip a test that cannot run here, or fail it where every test must run."""
    if condition:
        return
    if os.environ.get("INTARSIA_TEST_REQUIRE_ALL") == "1":
        pytest.fail(f"INTARSIA_TEST_REQUIRE_ALL=1, but {reason}")
    pytest.skip(f"SKIPPED: {reason}")


def built_binary() -> Path:
    """Return the binary that was built; a test that needs it cannot run without."""
    try:
        return find_binary()
    except StoreError as error:
        require(False, str(error))
        raise
