#!/usr/bin/env python3
"""Measures a store over hosts of a lab: small files, a large file read elsewhere, checkpoints.

All hosts share one machine, so times say what one client meets when the others are idle; CPU
seconds are those of all nodes and metadata servers together. The limit beside them: a plain TCP
copy between two hosts of the same lab.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time

import labs

BLOCK = 1 << 20
# What a FITS file consists of.
FITS_BLOCK = 2880
# A directory that nobody has changed for ten seconds is calm.
CALM_S = 11


def timed(cluster, work):
    """Operations a second, and CPU milliseconds of the store an operation, of `work`."""
    cpu, begun = cluster.cpu_s(), time.perf_counter()
    count = work()
    took = time.perf_counter() - begun
    return {"per_s": count / took, "cpu_ms": (cluster.cpu_s() - cpu) * 1000 / count}


def create(directory, files):
    """Create, write and close files of 4 KiB."""
    body = os.urandom(4096)
    directory.mkdir()
    for n in range(files):
        descriptor = os.open(directory / f"f{n}", os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644)
        os.write(descriptor, body)
        os.close(descriptor)
    return files


def stat_all(directory, files):
    """Look at every file."""
    for n in range(files):
        (directory / f"f{n}").stat()
    return files


def list_all(directory, files):
    """List the directory as `ls -l` does, with the attributes of every file."""
    assert sum(entry.stat().st_nlink for entry in os.scandir(directory)) == files
    return files


def make_directories(cluster, name, count):
    """Every host in turn makes a directory in one directory."""
    for n in range(count):
        (cluster.mount(n % cluster.hosts + 1) / name / f"d{n}").mkdir()
    return count


def read_all(directory, files):
    """Open and read every file."""
    for n in range(files):
        descriptor = os.open(directory / f"f{n}", os.O_RDONLY)
        assert len(os.read(descriptor, 8192)) == 4096
        os.close(descriptor)
    return files


def unlink_all(directory, files):
    """Remove every file."""
    for n in range(files):
        (directory / f"f{n}").unlink()
    return files


def read_large(path):
    """Read a file to its end; its length."""
    total = 0
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(BLOCK):
            total += len(chunk)
    return total


def write_large(path, mib):
    """Write a new file; MiB a second."""
    with open(path, "wb", buffering=0) as file:
        block = os.urandom(BLOCK)
        begun = time.perf_counter()
        for _ in range(mib):
            file.write(block)
    return mib / (time.perf_counter() - begun)


def read_elsewhere(cluster, path, mib):
    """Read a file of the first host on the second: ms until its length is seen there, MiB a second."""
    there = cluster.mount(2) / path.name
    begun = time.perf_counter()
    # A store shows the length at once; one of the peers a second after the close.
    cluster.wait("the file's length elsewhere", lambda: there.stat().st_size == mib << 20, 0.001)
    seen_ms = (time.perf_counter() - begun) * 1000
    begun = time.perf_counter()
    assert read_large(there) == mib << 20
    return seen_ms, mib / (time.perf_counter() - begun)


def read_in_small_pieces(path):
    """Read a file to its end as most libraries of formats do, one record of 2,880 bytes after the other; ms."""
    begun = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.read(FITS_BLOCK):
            pass
    return (time.perf_counter() - begun) * 1000


def small_reads(cluster, number, mib=16):
    """A file of the first host read in small pieces, there and twice on the second host; ms."""
    here = cluster.mount(1) / f"records{number}"
    there = cluster.mount(2) / here.name
    write_large(here, mib)
    cluster.wait("the file's length elsewhere", lambda: there.stat().st_size == mib << 20, 0.001)
    first, second = read_in_small_pieces(there), read_in_small_pieces(there)
    read_in_small_pieces(here)
    at_home = read_in_small_pieces(here)
    here.unlink()
    passes = {"at home": at_home, "elsewhere": first, "elsewhere again": second}
    return {f"{mib} MiB in small reads, {where} [ms]": {"per_s": ms} for where, ms in passes.items()}


def tcp_copy(cluster, mib):
    """MiB a second of a plain TCP connection between two hosts of the lab."""
    receiver = (
        "import socket;s=socket.create_server(('0.0.0.0',9999));print('ready',flush=True)\n"
        "c,_=s.accept();b=bytearray(1<<20);n=0\nwhile k:=c.recv_into(b):n+=k\nprint(n)"
    )
    sender = (
        "import socket,sys,time;c=socket.create_connection((sys.argv[1],9999));b=bytes(1<<20)\n"
        f"t=time.perf_counter()\nfor _ in range({mib}):c.sendall(b)\n"
        "c.shutdown(1);c.recv(1);print(time.perf_counter()-t)"
    )
    address = cluster.addresses[2]
    with subprocess.Popen(
        cluster.command(2, sys.executable, "-c", receiver), stdout=subprocess.PIPE, text=True
    ) as server:
        server.stdout.readline()
        done = subprocess.run(
            cluster.command(1, sys.executable, "-c", sender, address),
            capture_output=True,
            text=True,
            check=True,
        )
        server.wait(60)
    return mib / float(done.stdout)


def on_all(cluster, work):
    """Seconds from the start of `work(host)` on all hosts at once to the end of the last."""
    fork = multiprocessing.get_context("fork")
    gate = fork.Barrier(cluster.hosts + 1)

    def run(host):
        gate.wait()
        work(host)

    processes = [fork.Process(target=run, args=(host,)) for host in cluster.numbers()]
    for process in processes:
        process.start()
    gate.wait()
    begun = time.perf_counter()
    for process in processes:
        process.join()
    took = time.perf_counter() - begun
    if any(process.exitcode for process in processes):
        sys.exit("cluster.py: a process of a checkpoint failed")
    return took


def records(cluster, mib, host):
    """The numbers of the records of 1 MiB that a host writes: one stretch, of all parts."""
    return range((host - 1) * mib // cluster.hosts, host * mib // cluster.hosts)


def write_checkpoint(cluster, mib, path):
    """Every host writes its records to `path(host)`, and closes."""

    def work(host):
        block = bytes([host]) * BLOCK
        descriptor = os.open(path(host), os.O_CREAT | os.O_WRONLY, 0o644)
        for number in records(cluster, mib, host):
            assert os.pwrite(descriptor, block, number * BLOCK) == BLOCK
        os.close(descriptor)

    return mib / on_all(cluster, work)


def read_checkpoint(cluster, mib, path):
    """Every host reads the records of the host after it."""

    def work(host):
        writer = host % cluster.hosts + 1
        descriptor = os.open(path(host, writer), os.O_RDONLY)
        for number in records(cluster, mib, writer):
            block = os.pread(descriptor, BLOCK, number * BLOCK)
            assert len(block) == BLOCK
            assert block[0] == block[-1] == writer
        os.close(descriptor)

    return mib / on_all(cluster, work)


def checkpoints(cluster, number, mib):
    """All hosts write and read back a checkpoint: a file each, one file, one striped file."""
    samples = {}
    for what, place in {
        "a file each": "local",
        "one file": "local",
        "one striped file": f"stripe:{cluster.hosts}",
    }.items():
        directory = f"checkpoint{number}-{what.replace(' ', '-')}"
        (cluster.mount(1) / directory).mkdir()
        os.setxattr(cluster.mount(1) / directory, "user.intarsia.place", place.encode())
        has_many = what == "a file each"

        def path(host, writer=None):
            name = f"of{writer or host}" if has_many else "of-all"  # noqa: B023
            return cluster.mount(host) / directory / name  # noqa: B023

        cpu = cluster.cpu_s()
        samples[f"checkpoint, {what} [MiB/s]"] = {
            "per_s": write_checkpoint(cluster, mib, path),
            "cpu_ms": (cluster.cpu_s() - cpu) * 1000 / mib,
        }
        cpu = cluster.cpu_s()
        samples[f"restart, {what} [MiB/s]"] = {
            "per_s": read_checkpoint(cluster, mib, path),
            "cpu_ms": (cluster.cpu_s() - cpu) * 1000 / mib,
        }
        for file in (cluster.mount(1) / directory).iterdir():
            file.unlink()
    return samples


def small_files(cluster, number, files, suffix=""):
    """Create, look at, read and remove small files, each on another host than the one before."""
    name = f"round{number}"
    steps = {
        "create + 4 KiB + close": lambda: create(cluster.mount(1) / name, files),
        "stat on another host": lambda: stat_all(cluster.mount(2) / name, files),
        "open + read 4 KiB on another host": lambda: read_all(cluster.mount(3) / name, files),
        "`ls -l` on another host": lambda: list_all(cluster.mount(cluster.hosts) / name, files),
        "unlink on another host": lambda: unlink_all(cluster.mount(2) / name, files),
        "mkdir, each host in turn": lambda: make_directories(cluster, name, min(files, 200)),
    }
    return {what + suffix: timed(cluster, work) for what, work in steps.items()}


def calm_directory(cluster, number, files):
    """List a directory that nobody has changed for so long that a kernel may keep its names."""
    name = f"calm{number}"
    create(cluster.mount(1) / name, files)
    there = cluster.mount(cluster.hosts) / name
    list_all(there, files)
    time.sleep(CALM_S)
    return {"`ls -l` there of a calm directory": timed(cluster, lambda: list_all(there, files))}


def one_round(cluster, number, files, mib):
    """Every measurement once."""
    return (
        small_and_large(cluster, number, files, mib)
        | read_without_keeping(cluster, number, mib)
        | checkpoints(cluster, number, mib)
    )


def read_without_keeping(cluster, number, mib):
    """A large file read elsewhere that says by its hint `cache` that no copy of it is wanted there."""
    large = cluster.mount(1) / f"passing{number}"
    write_large(large, mib)
    os.setxattr(large, "user.intarsia.cache", b"none")
    _, rate = read_elsewhere(cluster, large, mib)
    large.unlink()
    return {"the same, not kept there [MiB/s]": {"per_s": rate}}


def small_and_large(cluster, number, files, mib):
    """Small files of one client, and a large file read elsewhere: what every file system can be asked."""
    samples = small_files(cluster, number, files)
    large = cluster.mount(1) / f"large{number}"
    samples["write [MiB/s]"] = {"per_s": write_large(large, mib)}
    seen_ms, rate = read_elsewhere(cluster, large, mib)
    samples["length seen on another host [ms]"] = {"per_s": seen_ms}
    samples["read on another host [MiB/s]"] = {"per_s": rate}
    samples["plain TCP copy [MiB/s]"] = {"per_s": tcp_copy(cluster, mib)}
    large.unlink()
    samples.update(small_reads(cluster, number))
    samples |= calm_directory(cluster, number, files)
    return samples


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument(
        "--link", help="rate of each link, such as 1gbit (default: as fast as the machine)"
    )
    parser.add_argument("--files", type=int, default=3000)
    parser.add_argument("--mib", type=int, default=256, help="size of the large file")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--idle", type=int, default=10, help="seconds of idleness to measure")
    parser.add_argument(
        "--work", default="/dev/shm", help="where the hosts' tiers and metadata lie"
    )
    parser.add_argument(
        "--leases",
        choices=("on", "off", "both"),
        default="both",
        help="whether hosts keep what they look up: with `both` small files are measured without, too",
    )
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    labs.end_on_signals()
    place = (arguments.program, arguments.hosts, arguments.link, arguments.work)
    without = {"options": ["--no-directory-leases"]}
    with labs.Intarsia(*place, **(without if arguments.leases == "off" else {})) as cluster:
        rounds = [
            one_round(cluster, n, arguments.files, arguments.mib) for n in range(arguments.repeat)
        ]
        cpu = cluster.cpu_s()
        time.sleep(arguments.idle)
        idle = (cluster.cpu_s() - cpu) / arguments.idle * 100
        up_s = cluster.up_s
    if arguments.leases == "both":
        with labs.Intarsia(*place, **without) as cluster:
            for number, samples in enumerate(rounds):
                samples.update(small_files(cluster, number, arguments.files, ", no leases"))
    rows = {
        what: {
            key: [round(r[what][key], 3) for r in rounds]
            + [round(statistics.median(r[what][key] for r in rounds), 3)]
            for key in rounds[0][what]
        }
        for what in rounds[0]
    }
    if arguments.json:
        print(
            json.dumps(
                {"arguments": vars(arguments), "up_s": up_s, "idle_percent": idle, "rows": rows},
                indent=1,
            )
        )
        return
    load = os.getloadavg()[0]
    print(f"{arguments.hosts} hosts of one machine, n = {arguments.repeat}, load {load:.1f}:")
    for what, row in rows.items():
        *values, median = row["per_s"]
        cpu = f"   CPU of the store {row['cpu_ms'][-1]:.3f} ms" if "cpu_ms" in row else ""
        print(f"  {what:46} {median:>10,.0f} {values}{cpu}")
    limit = rows["plain TCP copy [MiB/s]"]["per_s"][-1]
    for what in ["read on another host [MiB/s]", "the same, not kept there [MiB/s]"]:
        ratio = rows[what]["per_s"][-1] / limit
        print(f"  {what.removesuffix(' [MiB/s]')} / plain TCP copy: {ratio:.2f}")
    print(f"  up on all hosts {up_s:.2f} s; idle {idle:.2f} % of a core, all hosts together")


if __name__ == "__main__":
    main()
