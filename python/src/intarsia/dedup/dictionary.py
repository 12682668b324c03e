"""The index of fingerprints: a Bloom filter, a cache of neighbours, and the index itself."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia.dedup.trace import Flags, Ids


@dataclass(frozen=True)
class DictionaryShape:
    """Sizes of the parts. The entries are the published ones."""

    cache_entries: int = 100_000
    neighbours: int = 1024
    """Entries that one look into the index brings into the cache: those stored beside it."""
    bloom_entries: int = 1_000_000
    bloom_hashes: int = 4
    bits_per_entry: int = 8
    """1 reads the published "entries" as bits: the filter then fills up and says nothing."""


@dataclass(frozen=True)
class Lookups:
    """What each segment needed, and how the parts did."""

    is_stored: Flags
    in_index: Flags
    """Whether the index itself was asked, which is slow."""

    cache_hit_ratio: float
    """Of the duplicates, those found in the cache."""
    false_positive_ratio: float
    """Of the new contents, those that the Bloom filter took for known."""
    bloom_fill: float
    """Share of its bits that are set in the end."""


class Dictionary:
    """Keeps what is stored, from backup to backup."""

    def __init__(self, shape: DictionaryShape | None = None) -> None:
        self._shape = shape or DictionaryShape()
        self._place: dict[int, int] = {}
        self._cache: OrderedDict[int, None] = OrderedDict()
        bits = self._shape.bloom_entries * self._shape.bits_per_entry
        self._bits = np.zeros(bits, np.bool_)

    def look_up(self, ids: Ids) -> Lookups:
        """Look up the segments of one backup, in order; new ones are put in."""
        is_stored, in_index = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_)
        positions = self._positions(ids)
        hits = repeated = wrong = 0
        for at, fingerprint in enumerate(ids.tolist()):
            place = self._place.get(fingerprint)
            if place is None:
                bits = self._bits[positions[at]]
                wrong += bool(bits.all())
                in_index[at] = bits.all()
                self._bits[positions[at]] = True
                is_stored[at] = True
                place = self._place[fingerprint] = len(self._place)
                self._touch(place // self._shape.neighbours)
                continue
            repeated += 1
            if place // self._shape.neighbours in self._cache:
                hits += 1
            else:
                in_index[at] = True
            self._touch(place // self._shape.neighbours)
        new = len(ids) - repeated
        return Lookups(
            is_stored,
            in_index,
            hits / repeated if repeated else 1.0,
            wrong / new if new else 0.0,
            float(self._bits.mean()),
        )

    def _touch(self, group: int) -> None:
        """Make a group of neighbours the last to leave the cache."""
        self._cache[group] = None
        self._cache.move_to_end(group)
        if len(self._cache) * self._shape.neighbours > self._shape.cache_entries:
            self._cache.popitem(last=False)

    def _positions(self, ids: Ids) -> NDArray[np.int64]:
        """Return the bits of each fingerprint, by double hashing of its two halves."""
        low, high = ids & np.uint64(0xFFFFFFFF), (ids >> np.uint64(32)) | np.uint64(1)
        steps = np.arange(self._shape.bloom_hashes, dtype=np.uint64)
        places = (low[:, None] + steps * high[:, None]) % np.uint64(len(self._bits))
        return places.astype(np.int64)
