"""Databases and array formats in the mount: shared maps, locks, renames and partial writes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import h5py
import lmdb
import numpy as np
import zarr
from conftest import require
from intarsia.demo.blast import Blast
from intarsia.demo.workflow import missing_programs
from shell import finish, python, run

# Each transaction adds +n and -n, so any snapshot that is whole sums to zero.
_SQLITE_WRITER = """
import sqlite3, sys
database = sqlite3.connect("wal.db", timeout=120, isolation_level=None)
for number in range(1, 151):
    database.execute("BEGIN IMMEDIATE")
    database.execute("INSERT INTO entry VALUES (?, ?)", (sys.argv[1], number))
    database.execute("INSERT INTO entry VALUES (?, ?)", (sys.argv[1], -number))
    database.execute("COMMIT")
database.close()
"""
_SQLITE_READER = """
import sqlite3
database = sqlite3.connect("wal.db", timeout=120, isolation_level=None)
count = 0
while count < 600:
    query = database.execute("SELECT count(*), coalesce(sum(value), 0) FROM entry")
    count, total = query.fetchone()
    assert total == 0, (count, total)
    assert count % 2 == 0, count
database.close()
"""


def test_sqlite_wal_with_concurrent_writers_and_readers(work: Path) -> None:
    with sqlite3.connect(work / "wal.db") as database:
        assert database.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
        database.execute("CREATE TABLE entry (writer TEXT, value INTEGER)")
    database.close()
    readers = [python(_SQLITE_READER, work) for _ in range(2)]
    writers = [python(_SQLITE_WRITER, work, name) for name in ("a", "b")]
    finish(*writers, *readers)
    found = run("sqlite3", "wal.db", "PRAGMA integrity_check; SELECT count(*) FROM entry", cwd=work)
    assert found.split() == ["ok", "600"]


def test_sqlite_rolls_back_what_a_killed_writer_left(work: Path) -> None:
    run("sqlite3", "r.db", "PRAGMA journal_mode=DELETE; CREATE TABLE t (x)", cwd=work)
    writer = python(
        "import sqlite3, sys\n"
        "d = sqlite3.connect('r.db', isolation_level=None)\n"
        "d.execute('PRAGMA cache_size=5')\n"
        "d.execute('BEGIN')\n"
        "d.executemany('INSERT INTO t VALUES (?)', [('x' * 1000,)] * 2000)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n",
        work,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    writer.kill()
    writer.communicate(timeout=60)
    found = run("sqlite3", "r.db", "PRAGMA integrity_check; SELECT count(*) FROM t", cwd=work)
    assert found.split() == ["ok", "0"]


_LMDB_READER = """
import lmdb, sys
environment = lmdb.open("lmdb", max_dbs=0, readonly=True)
seen = 0
while seen < 2000:
    with environment.begin() as transaction:
        seen = int(transaction.get(b"count", b"0"))
        assert transaction.stat()["entries"] == (seen + 1 if seen else 0), seen
"""


def test_lmdb_with_a_concurrent_reader(work: Path) -> None:
    for writemap in (False, True):
        with lmdb.open(str(work / "lmdb"), map_size=64 << 20, writemap=writemap) as environment:
            reader = python(_LMDB_READER, work)
            for first in range(0, 2000, 100):
                with environment.begin(write=True) as transaction:
                    for number in range(first, first + 100):
                        transaction.put(b"%08d" % number, b"v" * 200)
                    transaction.put(b"count", b"%d" % (first + 100))
            finish(reader)
        run("rm", "-r", "lmdb", cwd=work)


def test_makeblastdb_and_blastn(work: Path, native: Path) -> None:
    missing = missing_programs(Blast().programs)
    require(not missing, "missing " + ", ".join(missing))
    found = []
    for place in (native, work):
        Blast().prepare(place)
        (place / "one.fa").write_text((place / "query.fa").read_text().split("\n>")[0] + "\n")
        run("makeblastdb", "-in", "database.fa", "-dbtype", "nucl", "-out", "db", cwd=place)
        found.append(run("blastn", "-db", "db", "-query", "one.fa", "-outfmt", "6", cwd=place))
    assert found[0].count("\n") > 10
    assert found[1] == found[0]


def test_h5py_grows_and_reads_back(work: Path) -> None:
    chance = np.random.default_rng(1)
    first, second = chance.random((2, 500, 64))
    with h5py.File(work / "data.h5", "w") as file:
        chunks = (64, 64)
        file.create_dataset("x", data=first, maxshape=(None, 64), chunks=chunks, compression="gzip")
        file.attrs["unit"] = "K"
    with h5py.File(work / "data.h5", "r+") as file:
        file["x"].resize((1000, 64))
        file["x"][500:] = second
    code = "import h5py; f = h5py.File('data.h5', 'r'); print(f['x'][...].sum(), f.attrs['unit'])"
    (printed,) = finish(python(code, work))
    total, unit = printed.split()
    assert unit == "K"
    np.testing.assert_allclose(float(total), first.sum() + second.sum(), rtol=1e-12)


def test_hdf5_refuses_a_second_writer(work: Path) -> None:
    with h5py.File(work / "locked.h5", "w") as file:
        file["x"] = 1
        file.flush()
        second = "import h5py\ntry: h5py.File('locked.h5', 'r+')\nexcept OSError: print('locked')"
        assert finish(python(second, work)) == ["locked\n"]


_ZARR_WRITER = """
import sys, numpy, zarr
part = int(sys.argv[1])
array = zarr.open_group("group.zarr", mode="r+")["x"]
array[part * 100:(part + 1) * 100] = numpy.full((100, 50), part, dtype="i4")
"""


def test_zarr_written_by_several_processes(work: Path) -> None:
    group = zarr.open_group(work / "group.zarr", mode="w")
    group.create_array("x", shape=(400, 50), chunks=(20, 25), dtype="i4")
    finish(*(python(_ZARR_WRITER, work, str(part)) for part in range(4)))
    found = np.asarray(zarr.open_group(work / "group.zarr", mode="r")["x"])
    expected = np.repeat(np.arange(4, dtype="i4"), 100)[:, None] * np.ones(50, dtype="i4")
    np.testing.assert_array_equal(found, expected)
