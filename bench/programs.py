"""Montage and BLAST as graphs of their own programs, for `intarsia run`.

As Montage's own workflows have it, each tile, each pair of tiles that overlap and each correction is a task; which pairs
there are is told from the tiles before, so that the graph is known.
"""

import json
import subprocess
import sys

from labs import ROOT, Absent, require

sys.path.insert(0, str(ROOT / "python/src"))

TILE_PX, OVERLAP_PX = 320, 52
#: Tiles a side of Montage, parts of the query of BLAST, and how much its query is.
SIZES = {"large": (8, 64, "small"), "middle": (6, 48, "small"), "few": (4, 24, "tiny")}


def montage(place, size):
    """Make the tiles below `place`; the tasks by name, and the result whose bytes must be the same in every run."""
    require(dict.fromkeys(("mProjectPP", "mImgtbl", "mMakeHdr", "mOverlaps"), "montage"), ("numpy", "astropy"))
    from intarsia.demo.montage import table_of
    from intarsia.demo.tiles import TileGrid, write_tiles

    tiles = [path.name for path in write_tiles(TileGrid(SIZES[size][0], TILE_PX, OVERLAP_PX), place / "raw")]
    (place / "tiles.lst").write_text(table_of(tiles))
    for words in ("mImgtbl -t tiles.lst raw raw.tbl", "mMakeHdr raw.tbl region.hdr", "mOverlaps raw.tbl pairs.tbl"):
        done = subprocess.run(words.split(), cwd=place, capture_output=True, text=True)
        if done.returncode or "ERROR" in done.stdout:
            raise Absent(f"{words}: {done.stdout}{done.stderr}")
    pairs = overlapping(place / "pairs.tbl", tiles)
    fits = [f"fit-{number}.txt" for number in range(len(pairs))]
    lines = [f" {one:7d} {other:7d} {name:>16} " for (one, other), name in zip(pairs, fits)]
    (place / "fits.lst").write_text("\n".join(["|  cntr1|  cntr2|            stat|", "|    int|    int|            char|", *lines]) + "\n")
    return montage_tasks(tiles, pairs, fits), "mosaic.fits"


def overlapping(table, tiles):
    """The numbers of the tiles of each pair, from the table of `mOverlaps`."""
    rows = [line.split() for line in table.read_text().splitlines() if line[:1] == " "]
    assert all(row[2].endswith(tiles[int(row[0])]) for row in rows), f"{table} counts the tiles in another order"
    return [(int(row[0]), int(row[1])) for row in rows]


def montage_tasks(tiles, pairs, fits):
    """Tasks by name; a program of Montage says `ERROR` and ends with 0."""
    tasks = {}

    def task(name, words, inputs, outputs):
        one_by_one = words if isinstance(words, list) else [words]
        # /bin/sh looks at the last program of a list alone.
        command = " && ".join(f'said=$({call}) && case "$said" in *ERROR*) echo "$said"; exit 1;; esac' for call in one_by_one)
        tasks[name] = {"command": command, "inputs": inputs, "outputs": outputs}

    def projected(name):
        return [f"proj/{name}", f"proj/{name[:-5]}_area.fits"]

    def corrected(name):
        return [f"corr/{name}", f"corr/{name[:-5]}_area.fits"]

    for number, name in enumerate(tiles):
        task(f"mProjectPP-{number}", f"mProjectPP raw/{name} proj/{name} region.hdr", [f"raw/{name}", "region.hdr"], projected(name))
    for number, ((one, other), fit) in enumerate(zip(pairs, fits)):
        both = [*projected(tiles[one]), *projected(tiles[other]), "region.hdr"]
        difference = [f"diff/{number}.fits", f"diff/{number}_area.fits"]
        words = [
            f"mDiff proj/{tiles[one]} proj/{tiles[other]} {difference[0]} region.hdr",
            f"mFitplane -s fit/{fit} {difference[0]}",
        ]
        task(f"mDiffFit-{number}", words, both, [*difference, f"fit/{fit}"])
    all_projected = [file for name in tiles for file in projected(name)]
    all_corrected = [file for name in tiles for file in corrected(name)]
    task("mConcatFit", "mConcatFit fits.lst fits.tbl fit", ["fits.lst", *(f"fit/{fit}" for fit in fits)], ["fits.tbl"])
    task("mImgtbl", "mImgtbl -t tiles.lst proj proj.tbl", ["tiles.lst", *all_projected], ["proj.tbl"])
    task("mBgModel", "mBgModel proj.tbl fits.tbl corrections.tbl", ["proj.tbl", "fits.tbl"], ["corrections.tbl"])
    for number, name in enumerate(tiles):
        # It looks for the very word that it is given in the table, which has names without directories.
        words = f"cd proj && mBackground -t {name} ../corr/{name} ../proj.tbl ../corrections.tbl"
        task(f"mBackground-{number}", words, [*projected(name), "proj.tbl", "corrections.tbl"], corrected(name))
    words = ["mImgtbl -t tiles.lst corr corr.tbl", "mAdd -p corr corr.tbl region.hdr mosaic.fits"]
    task("mAdd", words, ["tiles.lst", "region.hdr", *all_corrected], ["corr.tbl", "mosaic.fits", "mosaic_area.fits"])
    task("mShrink", "mShrink mosaic.fits small.fits 4", ["mosaic.fits"], ["small.fits"])
    return tasks


def blast(place, size):
    """Make the sequences and the parts of the query below `place`; the tasks by name, and the result."""
    require(dict.fromkeys(("makeblastdb", "blastn"), "ncbi-blast+"))
    from intarsia.demo.blast import Blast, deal, records

    _, parts, of_query = SIZES[size]
    Blast(size=of_query).prepare(place)
    (place / "parts").mkdir()
    queries = list(records((place / "query.fa").read_text()))
    parts = min(parts, len(queries))
    for number, hand in enumerate(deal(queries, parts)):
        (place / f"parts/{number:02d}.fa").write_text("".join(hand))
    (place / "query.fa").unlink()
    return blast_tasks(parts), "hits.tsv"


def blast_tasks(parts):
    """A database is made, parts of the query are searched in it, what was found is put together."""
    database = [f"db/16s.{kind}" for kind in "ndb nhr nin not nsq ntf nto".split()]
    made = "mkdir -p db && makeblastdb -in database.fa -dbtype nucl -title 16S -out db/16s"
    tasks = {"makeblastdb": {"command": made, "inputs": ["database.fa"], "outputs": database}}
    hits = []
    for number in range(parts):
        part, found = f"parts/{number:02d}.fa", f"hits/{number:02d}.tsv"
        words = f"blastn -num_threads 1 -db db/16s -outfmt 6 -query {part} -out {found}"
        tasks[f"blastn-{number}"] = {"command": words, "inputs": [*database, part], "outputs": [found]}
        hits.append(found)
    tasks["merge"] = {"command": f"cat {' '.join(hits)} > hits.tsv", "inputs": hits, "outputs": ["hits.tsv"]}
    return tasks


MAKERS = {"montage-programs": montage, "blast-programs": blast}


def written(name, place, size="large"):
    """The file of the graph, the directory of its inputs, the number of its tasks and the result."""
    inputs = place / f"{name}-inputs"
    inputs.mkdir()
    tasks, result = MAKERS[name](inputs, size)
    file = place / f"{name}.yaml"
    file.write_text(json.dumps({"name": name, "tasks": tasks}))
    return file, inputs, len(tasks), result


def chained(chain, side):
    """Tasks that come after each other in a chain, and then some side by side: what each comes after, by its name."""
    names = [f"c{n}" for n in range(chain)] + [f"s{n}" for n in range(side)]
    return {name: [names[min(at, chain) - 1]] if at else [] for at, name in enumerate(names)}


def idle(place, chain, side):
    """The file of a graph of programs that do nothing, as `chained` says."""
    tasks = {name: {"command": "true", "after": after} for name, after in chained(chain, side).items()}
    file = place / "idle.yaml"
    file.write_text(json.dumps({"name": "idle", "tasks": tasks}))
    return file
