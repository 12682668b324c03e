"""The BLAST workflow: build a database of 16S rRNA, search it with 20 parts of a query, merge."""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from itertools import pairwise
from pathlib import Path

from intarsia.demo.workflow import Command, Stage, Task, copy_in

_PARTS = 20
# Every n-th record is a query, so that the small run is a matter of seconds.
_QUERY_STRIDE = {"tiny": 280, "small": 140, "medium": 10}
_SEQUENCES = "combined16s-rrna.fa.xz"


@dataclass(frozen=True)
class Blast:
    """Search of a part of the 16S sequences in all of them."""

    size: str = "small"
    name: str = "blast"
    # The index (*.nin) holds the time of day, so it alone differs from run to run.
    compared: Sequence[str] = ("*.fa", "*.tsv", "*.nsq", "*.nhr")
    programs: Mapping[str, str] = field(
        default_factory=lambda: dict.fromkeys(("makeblastdb", "blastn"), "ncbi-blast+")
    )

    def prepare(self, inputs: Path) -> None:
        """Unpack the sequences and choose the queries."""
        inputs.mkdir(parents=True, exist_ok=True)
        packed = resources.files("intarsia.demo").joinpath("data", _SEQUENCES).read_bytes()
        text = lzma.decompress(packed).decode("ascii")
        (inputs / "database.fa").write_text(text, encoding="ascii")
        stride = _QUERY_STRIDE[self.size]
        queries = list(records(text))[stride - 1 :: stride]
        (inputs / "query.fa").write_text("".join(queries), encoding="ascii")

    def stages(self, inputs: Path) -> list[Stage]:
        """The stages, from copying the sequences in to the merged table of hits."""
        makeblastdb = ("makeblastdb", "-in", "database.fa", "-dbtype", "nucl")
        copies = [copy_in(inputs / name, name) for name in ("database.fa", "query.fa")]
        return [
            Stage("stage-in", copies),
            Stage("makeblastdb", [Command((*makeblastdb, "-title", "16S", "-out", "db/16s"))]),
            Stage("split", [_split]),
            Stage("blastn", [_search(part) for part in range(_PARTS)]),
            Stage("merge", [_merge]),
        ]


def records(fasta: str) -> Iterator[str]:
    """Cut FASTA text into its records."""
    for record in fasta.split("\n>"):
        text = record.rstrip("\n") + "\n"
        yield text if text.startswith(">") else ">" + text


def deal(items: Sequence[str], parts: int) -> list[list[str]]:
    """Deal `items` into `parts` hands of nearly the same size, keeping their order."""
    bounds = [len(items) * part // parts for part in range(parts + 1)]
    return [list(items[low:high]) for low, high in pairwise(bounds)]


def _search(part: int) -> Task:
    blastn = ("blastn", "-num_threads", "1", "-db", "db/16s", "-outfmt", "6")
    return Command((*blastn, "-query", f"parts/{part:02d}.fa", "-out", f"hits/{part:02d}.tsv"))


def _split(directory: Path) -> None:
    queries = list(records((directory / "query.fa").read_text(encoding="ascii")))
    for folder in ("parts", "hits"):
        (directory / folder).mkdir()
    for part, hand in enumerate(deal(queries, _PARTS)):
        (directory / "parts" / f"{part:02d}.fa").write_text("".join(hand), encoding="ascii")


def _merge(directory: Path) -> None:
    with open(directory / "hits.tsv", "wb") as merged:
        for part in sorted((directory / "hits").glob("*.tsv")):
            merged.write(part.read_bytes())
