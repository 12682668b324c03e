#!/usr/bin/env python3
"""Measures what a hint and a question for a file's place cost, and from which size on they pay.

Over two hosts of a lab, on files that the first one has just written:

  tag         one hint on an empty file, before it is written (`setxattr`)
  write       a new file of 4 KiB, without a hint and with one that its directory passes on
  query       where one file lies, by its attribute
  batch       the same for all files of a directory at once (`intarsia.locate`), for each file
  tag batch   one hint on all files of a directory at once (`intarsia.tag`), for each file
  command     `intarsia locate` and `intarsia hint set` with all files, from its start to its end, for each file

Then, for files of several sizes, the time from the tag to the end of a read: `plain` writes on the first host and reads on
the second; `hinted` tags, writes, asks and reads where the file is said to be; `batched` gives the hint by the directory
and asks for all at once. The size from which on each is quicker than `plain` is where it pays.

example:
  bench/hint_costs.py --quick
  bench/hint_costs.py --files 200 --repeat 5 --link 1gbit
"""

import json
import os
import statistics
import sys
import time

import command_line
import kept
import labs

sys.path.insert(0, str(labs.ROOT / "python/src"))
from intarsia.locate import locate  # noqa: E402 - it is not installed where this runs
from intarsia.tag import tag  # noqa: E402

HINT = "user.intarsia.place", b"local"
SIZES = (1 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20)


def timed(work, items):
    """Seconds that `work` takes for each of the items, on average."""
    begun = time.perf_counter()
    for item in items:
        work(item)
    return (time.perf_counter() - begun) / len(items)


def write(path, content):
    """Write a file."""
    with open(path, "wb", buffering=0) as file:
        file.write(content)


def read(path):
    """Read a file."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def touch(path):
    """Make an empty file."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def costs(system, files, name):
    """Seconds for each file of tag, query and batch, and of writing without and with a hint of the directory."""
    found, paths = {}, {}
    for way in ("plain", "tag", "many", "command", "directory"):
        directory = system.mount(1) / f"{name}-{way}"
        directory.mkdir()
        paths[way] = [directory / f"f{number}" for number in range(files)]
        if way == "directory":
            os.setxattr(directory, *HINT)
    content = os.urandom(4096)
    for path in paths["tag"] + paths["many"] + paths["command"]:
        touch(path)
    found["tag"] = timed(lambda path: os.setxattr(path, *HINT), paths["tag"])
    found["write"] = timed(lambda path: write(path, content), paths["plain"])
    found["write, hint of the directory"] = timed(lambda path: write(path, content), paths["directory"])
    other = [system.mount(2) / path.parent.name / path.name for path in paths["plain"]]
    found["query, first"] = timed(lambda path: os.getxattr(path, "user.intarsia.location"), other)
    found["query"] = timed(lambda path: os.getxattr(path, "user.intarsia.location"), other)
    begun = time.perf_counter()
    assert not locate(other).unknown
    found["batch"] = (time.perf_counter() - begun) / files
    begun = time.perf_counter()
    assert not tag(paths["many"], {"place": "local"})
    found["tag batch"] = (time.perf_counter() - begun) / files
    begun = time.perf_counter()
    system.intarsia("locate", *other)
    found["command locate"] = (time.perf_counter() - begun) / files
    begun = time.perf_counter()
    system.intarsia("hint", "set", "place=local", *paths["command"])
    found["command hint set"] = (time.perf_counter() - begun) / files
    return found


def chains(system, size, files, name):
    """Seconds for each file, from its tag to the end of its read, in each way."""
    found = {}
    content = os.urandom(size)
    for way in ("plain", "hinted", "batched"):
        at = {number: system.mount(number) / f"{name}-{way}" for number in (1, 2)}
        at[1].mkdir()
        names = [f"f{number}" for number in range(files)]
        begun = time.perf_counter()
        if way == "batched":
            os.setxattr(at[1], *HINT)
        for file in names:
            if way == "hinted":
                touch(at[1] / file)
                os.setxattr(at[1] / file, *HINT)
            write(at[1] / file, content)
        where = dict.fromkeys(names, 2)
        if way == "hinted":
            for file in names:
                said = os.getxattr(at[2] / file, "user.intarsia.location").decode()
                where[file] = int(said.split(",")[0][1:])
        if way == "batched":
            told = locate([at[2] / file for file in names])
            where = {file: int((one.hosts or ("n2",))[0][1:]) for file, one in zip(names, told.files)}
        for file in names:
            read(at[where[file]] / file)
        found[way] = (time.perf_counter() - begun) / files
        for file in names:
            (at[1] / file).unlink()
    return found


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--files", type=int, default=200, help="of each measurement (%(default)s); fewer of the largest")
    parser.add_argument("--link", default="1gbit", help="rate of each link (%(default)s)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="20 files, once")
    parser.add_argument("--work", default="/dev/shm", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.files, arguments.repeat = 20, 1
    labs.end_on_signals()
    labs.Intarsia.check(arguments.program)
    single, by_size, loads = [], {size: [] for size in SIZES}, []
    with labs.Intarsia(arguments.program, 2, arguments.link, arguments.work) as system:
        for number, _ in labs.in_turn(["hints"], arguments.repeat):
            loads.append(os.getloadavg()[0])
            single.append(costs(system, arguments.files, f"c{number}"))
            for size in SIZES:
                files = max(2, min(arguments.files, (64 << 20) // size))
                by_size[size].append(chains(system, size, files, f"s{size}-{number}"))
    if arguments.json:
        print(json.dumps({"arguments": vars(arguments), "loads": loads, "costs": single, "chains": by_size}, indent=1))
        return
    print(f"commit {kept.commit()}, {arguments.files} files each")
    print(f"two hosts, links {arguments.link}, n = {arguments.repeat}, load {min(loads):.1f} to {max(loads):.1f}; milliseconds for a file, median (least - most)")
    for name in single[0]:
        print(f"  {name:30} {spread([one[name] for one in single])}")
    for size, rounds in by_size.items():
        print(f"\n{size >> 10} KiB")
        for way in rounds[0]:
            print(f"  {way:30} {spread([one[way] for one in rounds])}")


def spread(seconds):
    """Median, least and most in milliseconds."""
    median, least, most = (1000 * value for value in (statistics.median(seconds), min(seconds), max(seconds)))
    return f"{median:8.3f}   ({least:.3f} - {most:.3f})"


if __name__ == "__main__":
    main()
