"""Where segments end: at fixed places, at places that the content chooses, or with the file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

from pyfastcdc import FastCDC

from intarsia.dedup.errors import DedupError
from intarsia.dedup.units import parse_bytes

HASH = "blake2b-128"
_READ = 2**20


class Kind(StrEnum):
    """How a file is cut."""

    FASTCDC = "fastcdc"
    FIXED = "fixed"
    FILE = "file"


@dataclass(frozen=True)
class Chunker:
    """Cuts files into segments; sizes in bytes.

    FastCDC's `average` is what the content's mask aims at. The mean that comes out is larger,
    because a segment is never shorter than `smallest`: 10.5 KB for 4, 8 and 16 KiB on random data.
    """

    kind: Kind = Kind.FASTCDC
    average: int = 8192
    smallest: int = 4096
    largest: int = 16384

    def __str__(self) -> str:
        if self.kind is Kind.FILE:
            return str(self.kind)
        if self.kind is Kind.FIXED:
            return f"{self.kind}:{self.average}"
        return f"{self.kind}:{self.smallest},{self.average},{self.largest}"

    @classmethod
    def parse(cls, text: str) -> Chunker:
        """Read `fastcdc:4KiB,8KiB,16KiB`, `fixed:8KiB` or `file`; sizes may be left out."""
        name, _, rest = text.partition(":")
        sizes = [parse_bytes(size) for size in rest.split(",")] if rest else []
        if name == Kind.FILE and not sizes:
            return cls(Kind.FILE)
        if name == Kind.FIXED and len(sizes) <= 1:
            return cls._fixed(text, sizes[0] if sizes else 8192)
        if name == Kind.FASTCDC and len(sizes) in (0, 3):
            return cls._fastcdc(text, *sizes) if sizes else cls()
        raise DedupError(
            f"--chunker {text}: write fastcdc:SMALLEST,AVERAGE,LARGEST, fixed:SIZE or file"
        )

    @classmethod
    def _fixed(cls, text: str, size: int) -> Chunker:
        if size < 512:
            raise DedupError(f"--chunker {text}: a segment needs at least 512 bytes")
        return cls(Kind.FIXED, size, size, size)

    @classmethod
    def _fastcdc(cls, text: str, smallest: int, average: int, largest: int) -> Chunker:
        if not smallest < average < largest:
            raise DedupError(f"--chunker {text}: smallest < average < largest must hold")
        if not (smallest >= 64 and 256 <= average <= 2**22 and largest <= 2**24):
            raise DedupError(
                f"--chunker {text}: FastCDC takes a smallest size from 64 B on, an average from "
                "256 B to 4 MiB, and a largest size up to 16 MiB"
            )
        return cls(Kind.FASTCDC, average, smallest, largest)

    def segments(self, stream: BinaryIO) -> Iterator[tuple[int, int]]:
        """Yield fingerprint and size of each segment of a stream, in order; empty: none."""
        if self.kind is Kind.FILE:
            yield from _whole(stream)
        elif self.kind is Kind.FIXED:
            while block := _read_fully(stream, self.average):
                yield fingerprint(block), len(block)
        else:
            cutter = FastCDC(self.average, min_size=self.smallest, max_size=self.largest)
            for chunk in cutter.cut_stream(stream):
                yield fingerprint(chunk.data), chunk.length


def fingerprint(content: bytes | memoryview) -> int:
    """Return the first 64 bits of the content's BLAKE2b-128."""
    return _first_bits(hashlib.blake2b(content, digest_size=16).digest())


def _first_bits(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "big")


def _whole(stream: BinaryIO) -> Iterator[tuple[int, int]]:
    state, size = hashlib.blake2b(digest_size=16), 0
    while block := stream.read(_READ):
        state.update(block)
        size += len(block)
    if size:
        yield _first_bits(state.digest()), size


def _read_fully(stream: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, less only at the end: members of a tar may give less at a time."""
    block = stream.read(size)
    while block and len(block) < size:
        more = stream.read(size - len(block))
        if not more:
            break
        block += more
    return block
