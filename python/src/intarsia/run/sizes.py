"""How large the files of a workflow are, as far as it is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from intarsia.learn.observed import Role


class Sizes:
    """Sizes in bytes: those that the workflow tells, and those of files that are there by now.

    Of a file that is still to be made it is known how large others of its rule are, in the mean.
    """

    def __init__(self, size_bytes: Mapping[str, int] | None = None) -> None:
        self._by_file = dict(size_bytes or {})
        self._by_role: defaultdict[Role, tuple[int, int]] = defaultdict(lambda: (0, 0))

    def made(self, file: str, role: Role, size_bytes: int) -> None:
        """A file is there, and so large."""
        if file not in self._by_file:
            count, total = self._by_role[role]
            self._by_role[role] = (count + 1, total + size_bytes)
        self._by_file[file] = size_bytes

    def of(self, file: str, role: Role) -> int | None:
        """Return how large a file is, or will be; None where nobody knows."""
        if file in self._by_file:
            return self._by_file[file]
        count, total = self._by_role.get(role, (0, 0))
        return total // count if count else None
