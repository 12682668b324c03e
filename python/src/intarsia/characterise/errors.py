"""What can be wrong with what a user gives."""

from __future__ import annotations


class CharacteriseError(ValueError):
    """An input is refused; the text says what is wrong, where, and what to do."""


class OutsideError(CharacteriseError):
    """A load lies outside what a model was fitted on, so it gives no prediction."""
