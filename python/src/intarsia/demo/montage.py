"""The Montage mosaic workflow on synthetic sky tiles, from projection to the picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from intarsia.demo.tiles import TileGrid, write_tiles
from intarsia.demo.workflow import Command, Stage, Task, copy_in

_SIZES = {
    "tiny": TileGrid(per_side=3, tile_px=256, overlap_px=42),
    "small": TileGrid(per_side=4, tile_px=512, overlap_px=82),
    "medium": TileGrid(per_side=6, tile_px=768, overlap_px=120),
}
_PROGRAMS = "mImgtbl mMakeHdr mProjectPP mOverlaps mDiffExec mFitExec mBgModel mBgExec mAdd mViewer"
# Montage reports what went wrong in a structure on standard output, some programs with exit code 0.
_REFUSED = r'stat="ERROR"|\b(failed|badfits|badwcs|missing)=[1-9]'

MOSAIC_PNG = "mosaic.png"


@dataclass(frozen=True)
class Montage:
    """Mosaic of a grid of tiles."""

    size: str = "small"
    name: str = "montage"
    compared: Sequence[str] = ("*.fits", "*.tbl", "*.hdr", "*.png")
    programs: Mapping[str, str] = field(
        default_factory=lambda: dict.fromkeys(_PROGRAMS.split(), "montage")
    )

    @property
    def grid(self) -> TileGrid:
        """The grid of tiles that this size stands for."""
        return _SIZES[self.size]

    def prepare(self, inputs: Path) -> None:
        """Write the tiles."""
        write_tiles(self.grid, inputs)

    def stages(self, inputs: Path) -> list[Stage]:
        """The stages, from copying the tiles in to the picture of the mosaic."""
        tiles = sorted(inputs.glob("*.fits"))
        names = [tile.name for tile in tiles]
        project = [
            _montage("mProjectPP", f"raw/{name}", f"proj/{name}", "region.hdr") for name in names
        ]
        return [
            Stage("stage-in", [copy_in(tile, f"raw/{tile.name}") for tile in tiles]),
            Stage("folders", [_make_folders("proj", "diff", "corr"), _write_list(names)]),
            _one("mImgtbl raw", "mImgtbl", "-t", "tiles.lst", "raw", "raw.tbl"),
            _one("mMakeHdr", "mMakeHdr", "raw.tbl", "region.hdr"),
            Stage("mProjectPP", project),
            _one("mImgtbl proj", "mImgtbl", "-t", "tiles.lst", "proj", "proj.tbl"),
            _one("mOverlaps", "mOverlaps", "proj.tbl", "diffs.tbl"),
            _one("mDiffExec", "mDiffExec", "-p", "proj", "diffs.tbl", "region.hdr", "diff"),
            _one("mFitExec", "mFitExec", "diffs.tbl", "fits.tbl", "diff"),
            _one("mBgModel", "mBgModel", "proj.tbl", "fits.tbl", "corrections.tbl"),
            _one("mBgExec", "mBgExec", "-p", "proj", "proj.tbl", "corrections.tbl", "corr"),
            _one("mImgtbl corr", "mImgtbl", "-t", "tiles.lst", "corr", "corr.tbl"),
            _one("mAdd", "mAdd", "-p", "corr", "corr.tbl", "region.hdr", "mosaic.fits"),
            _one("mViewer", *_view("mosaic.fits", MOSAIC_PNG)),
        ]


def _one(name: str, *argv: str) -> Stage:
    return Stage(name, [_montage(*argv)])


def _montage(*argv: str) -> Command:
    return Command(argv, refused=_REFUSED)


def _view(fits: str, png: str) -> tuple[str, ...]:
    stretch = ("-1s", "99.98%", "gaussian-log")
    return ("mViewer", "-ct", "0", "-gray", fits, *stretch, "-out", png)


def _make_folders(*names: str) -> Task:
    def make(directory: Path) -> None:
        for name in names:
            (directory / name).mkdir()

    return make


def table_of(names: Sequence[str]) -> str:
    """Return the list of tiles for `mImgtbl -t`.

    Left alone, it takes files in the order of `readdir`, which no file system promises, and the
    sums in mAdd follow that order.
    """
    width = max(len(name) for name in names)
    rows = [f"|{column.center(width)}|" for column in ("fname", "char")]
    rows += [f" {name.ljust(width)} " for name in names]
    return "\n".join(rows) + "\n"


def _write_list(names: Sequence[str]) -> Task:
    def write(directory: Path) -> None:
        (directory / "tiles.lst").write_text(table_of(names), encoding="ascii")

    return write
