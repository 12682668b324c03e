from pathlib import Path

import numpy as np
from astropy.io import fits
from intarsia.demo.compare import digests
from intarsia.demo.tiles import TileGrid, write_tiles

GRID = TileGrid(per_side=2, tile_px=64, overlap_px=16)


def test_the_same_grid_gives_the_same_bytes(tmp_path: Path) -> None:
    write_tiles(GRID, tmp_path / "one")
    write_tiles(GRID, tmp_path / "two")
    assert digests(tmp_path / "one", ["*.fits"]) == digests(tmp_path / "two", ["*.fits"])


def test_every_tile_is_written_in_single_precision(tmp_path: Path) -> None:
    paths = write_tiles(GRID, tmp_path)
    assert len(paths) == GRID.count == 4
    for path in paths:
        assert fits.getdata(path).dtype == np.dtype(">f4")
        assert fits.getdata(path).shape == (64, 64)


def test_headers_have_the_form_that_montage_reads_as_a_small_area(tmp_path: Path) -> None:
    header = fits.getheader(write_tiles(GRID, tmp_path)[0])
    for keyword in ("CTYPE1", "CRVAL1", "CRPIX1", "CDELT1", "CROTA2", "EQUINOX"):
        assert keyword in header
    assert "PC1_1" not in header
    assert abs(header["CDELT1"]) < 1e-3


def test_neighbours_show_the_same_sky_above_different_backgrounds(tmp_path: Path) -> None:
    left, right = (fits.getdata(path) for path in write_tiles(GRID, tmp_path)[:2])
    difference = right[:, : GRID.overlap_px] - left[:, -GRID.overlap_px :]
    assert abs(float(np.median(difference))) > 1.0
    # What remains is the difference of two slopes, not of two skies.
    assert float(np.std(difference)) < 10.0
