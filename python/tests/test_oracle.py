"""The oracle: what is a finding, and what its shape suggests."""

from __future__ import annotations

import pytest
from intarsia.refine.oracle import Measured, findings, suggestion, told


def measured(*samples: float, operation: str = "read", foretold: float = 0.1) -> Measured:
    return Measured("b", "m", operation, foretold, samples, 1.5)


def test_only_what_takes_longer_than_it_may_is_found_the_worst_first() -> None:
    well, bad, worse = measured(0.14), measured(0.2), measured(9.0)
    assert findings([well, bad, worse]) == [worse, bad]
    assert findings([well, measured(0.01)]) == []
    assert "90.0 times" in told(findings([worse]))


def test_one_late_call_of_many_is_no_finding() -> None:
    assert findings([measured(0.1, 0.1, 5.0)]) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (measured(3.1, 3.11, 3.12), "late by the same 3.0 s"),
        (measured(0.1, 3.11, 3.12), "late by the same 3.0 s"),
        (measured(0.4, 0.45, 3.1, 0.41), "each time"),
        (measured(0.2, 0.21, 0.19), "twice"),
        (measured(0.5, operation="concurrent reads"), "a lock"),
        (measured(1.0, operation="share", foretold=0.33), "where files are placed"),
        (measured(0.4, 0.45), "each time"),
    ],
)
def test_shapes_suggest_causes(found: Measured, said: str) -> None:
    assert said in suggestion(found)
