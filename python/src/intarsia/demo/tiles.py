"""Synthetic sky tiles: overlapping FITS images of one sky, each with a background of its own.

The same `TileGrid` always yields the same bytes, so that two runs of a workflow over the tiles can
be compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from astropy.io import fits

_RA_DEG = 210.0
_DEC_DEG = 54.0
_PIXEL_DEG = 1.0 / 3600.0
_SEED = 20260101


@dataclass(frozen=True)
class TileGrid:
    """A square grid of tiles that overlap their neighbours."""

    per_side: int = 4
    tile_px: int = 512
    overlap_px: int = 82

    @property
    def step_px(self) -> int:
        """Distance between the origins of two neighbouring tiles."""
        return self.tile_px - self.overlap_px

    @property
    def sky_px(self) -> int:
        """Side of the whole sky that the tiles cover."""
        return self.step_px * (self.per_side - 1) + self.tile_px

    @property
    def count(self) -> int:
        """Number of tiles."""
        return self.per_side**2


def write_tiles(grid: TileGrid, directory: Path) -> list[Path]:
    """Write every tile of `grid` into `directory` and return the paths in order."""
    directory.mkdir(parents=True, exist_ok=True)
    sky = _sky(grid.sky_px)
    paths = []
    for index, (row, column) in enumerate(_origins(grid)):
        pixels = sky[row : row + grid.tile_px, column : column + grid.tile_px]
        image = (pixels + _background(grid.tile_px, index)).astype(">f4")
        path = directory / f"tile_{index:03d}.fits"
        fits.PrimaryHDU(image, header=_header(grid, row, column)).writeto(path, overwrite=True)
        paths.append(path)
    return paths


def _origins(grid: TileGrid) -> Iterator[tuple[int, int]]:
    for row in range(grid.per_side):
        for column in range(grid.per_side):
            yield row * grid.step_px, column * grid.step_px


def _sky(side_px: int) -> np.ndarray:
    """Stars, one spiral galaxy and noise: enough structure to see a seam or a shifted tile."""
    chance = np.random.default_rng(_SEED)
    sky = chance.normal(100.0, 2.0, (side_px, side_px))
    _add_galaxy(sky)
    for _ in range(side_px // 2):
        row, column = chance.uniform(0, side_px, 2)
        _add_star(sky, row, column, peak=float(30.0 * chance.pareto(1.2) + 40.0))
    return sky


def _add_galaxy(sky: np.ndarray) -> None:
    side_px = sky.shape[0]
    axis = np.linspace(-1.0, 1.0, side_px)
    x, y = np.meshgrid(axis, axis)
    radius = np.hypot(x, 1.35 * y) + 1e-9
    angle = np.arctan2(1.35 * y, x)
    arms = 1.0 + np.cos(2.0 * (angle - 3.2 * np.log(radius)))
    sky += 300.0 * np.exp(-radius / 0.05) + 55.0 * arms * np.exp(-radius / 0.25)


def _add_star(sky: np.ndarray, row: float, column: float, peak: float) -> None:
    """Add a Gaussian spot; a small window keeps the work proportional to the star."""
    sigma_px, reach_px = 1.6, 9
    top, left = max(0, int(row) - reach_px), max(0, int(column) - reach_px)
    window = sky[top : int(row) + reach_px + 1, left : int(column) + reach_px + 1]
    y, x = np.mgrid[0 : window.shape[0], 0 : window.shape[1]]
    distance_squared = (y + top - row) ** 2 + (x + left - column) ** 2
    window += min(peak, 3000.0) * np.exp(-distance_squared / (2.0 * sigma_px**2))


def _background(tile_px: int, index: int) -> np.ndarray:
    """A level and a slope that differ from tile to tile, as in real exposures."""
    chance = np.random.default_rng([_SEED, index])
    level = chance.uniform(-40.0, 40.0)
    slope_row, slope_column = chance.uniform(-8.0, 8.0, 2)
    axis = np.linspace(-0.5, 0.5, tile_px)
    rows, columns = slope_row * axis[:, None], slope_column * axis[None, :]
    return np.asarray(level + rows + columns)


def _header(grid: TileGrid, row: int, column: int) -> fits.Header:
    """A header in the CDELT/CROTA2 form.

    Montage reads a PC matrix with CDELT = 1 as an image of the whole sky and changes projection,
    so the older keywords are written by hand.
    """
    centre_px = grid.sky_px / 2.0 + 0.5
    header = fits.Header()
    header["CTYPE1"], header["CTYPE2"] = "RA---TAN", "DEC--TAN"
    header["CRVAL1"], header["CRVAL2"] = _RA_DEG, _DEC_DEG
    header["CRPIX1"], header["CRPIX2"] = centre_px - column, centre_px - row
    header["CDELT1"], header["CDELT2"] = -_PIXEL_DEG, _PIXEL_DEG
    header["CROTA2"] = 0.0
    header["EQUINOX"] = 2000.0
    return header
