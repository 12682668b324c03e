#!/usr/bin/env python3
"""Measures what a store of this host delivers to checkpoints: `[storage]` of a scenario.

Two stores are brought up for each tier. A checkpoint-sized file is written to one of them in blocks
of 4 MiB and synced, read again with cold caches, and copied to the other. The speed of coding is
that of Intel's ISA-L (Debian `libisal2`) on one processor.

example:
  bench/profile_store.py --out profile.toml           two tiers, five repetitions of 512 MiB
  bench/profile_store.py --mib 64 --repeat 2          a first look
"""

import ctypes
import ctypes.util
import datetime
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import command_line
from systems import INTARSIA, Absent, Intarsia

# A checkpoint that a reboot takes back is none.
INTARSIA["up-durable"] = INTARSIA["up"] + " --durability sync"

BLOCK = 4 << 20
LATENCY_FILES = 200
CODING_BYTES = 8 << 20
CODING_ROUNDS = 12
GROUP = 8
PARITIES = 2


def parse_arguments():
    parser = command_line.parser(__doc__)
    parser.add_argument("--mib", type=int, default=512, help="size of a checkpoint (default 512)")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions (default 5)")
    parser.add_argument(
        "--memory", default="/dev/shm", help="folder of the memory tier (default %(default)s)"
    )
    parser.add_argument(
        "--local", default="/var/tmp", help="folder of the local tier (default %(default)s)"
    )
    parser.add_argument("--out", help="file to write (default: standard output)")
    return parser.parse_args()


def timed(action):
    start = time.monotonic()
    action()
    return time.monotonic() - start


def write(path, blocks):
    """Writes `blocks` and returns when they are durable."""
    with open(path, "wb", buffering=0) as file:
        for block in blocks:
            file.write(block)
        os.fsync(file.fileno())


def read(path):
    buffer = bytearray(BLOCK)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def copied(source, target):
    """Copies through both stores, as a partner copy does on its two ends."""
    with open(source, "rb", buffering=0) as file:
        write(target, iter(lambda: file.read(BLOCK), b""))


def drop_caches():
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def measure_tier(folder, mib, repeat):
    """Samples of bandwidths in bytes per second and of the latency in seconds, and the mode."""
    samples = {"write": [], "read": [], "copy": [], "latency": [], "mode": ""}
    blocks = [os.urandom(BLOCK)] * (mib * (1 << 20) // BLOCK)
    total = len(blocks) * BLOCK
    with tempfile.TemporaryDirectory(prefix="intarsia-profile-", dir=folder) as base:
        stores = [Intarsia(side, base, "up-durable") for side in ("one", "other")]
        try:
            for store in stores:
                store.check()
                store.start()
            samples["mode"] = stores[0].mode()
            one, other = (store.mount / "checkpoint" for store in stores)
            for _ in range(repeat):
                samples["write"].append(total / timed(lambda: write(one, blocks)))
                drop_caches()
                samples["read"].append(total / timed(lambda: read(one)))
                samples["copy"].append(total / timed(lambda: copied(one, other)))
                one.unlink()
                other.unlink()
            small = stores[0].mount / "small"
            for _ in range(LATENCY_FILES):
                samples["latency"].append(timed(lambda: write(small, [b""])))
                small.unlink()
        finally:
            for store in stores:
                store.stop()
    return samples


def measure_coding():
    """Bytes per second that ISA-L folds into a parity, and that it codes times parities."""
    name = ctypes.util.find_library("isal")
    if name is None:
        print("ISA-L is missing, so coding is left out; apt-get install libisal2", file=sys.stderr)
        return {}
    library = ctypes.CDLL(name)
    shares = [aligned(os.urandom(CODING_BYTES)) for _ in range(GROUP)]
    vectors = (ctypes.c_void_p * (GROUP + 1))(*(address for _, address in shares), 0)
    parity = aligned(bytes(CODING_BYTES))
    vectors[GROUP] = parity[1]

    def fold():
        library.xor_gen(GROUP + 1, CODING_BYTES, vectors)

    samples = {"xor": [GROUP * CODING_BYTES / timed(fold) for _ in range(CODING_ROUNDS)]}

    matrix = ctypes.create_string_buffer((GROUP + PARITIES) * GROUP)
    library.gf_gen_cauchy1_matrix(matrix, GROUP + PARITIES, GROUP)
    tables = ctypes.create_string_buffer(32 * GROUP * PARITIES)
    rows = ctypes.byref(matrix, GROUP * GROUP)
    library.ec_init_tables(GROUP, PARITIES, rows, tables)
    data = (ctypes.c_void_p * GROUP)(*(address for _, address in shares))
    parities = [aligned(bytes(CODING_BYTES)) for _ in range(PARITIES)]
    coded = (ctypes.c_void_p * PARITIES)(*(address for _, address in parities))

    def code():
        library.ec_encode_data(CODING_BYTES, GROUP, PARITIES, tables, data, coded)

    work = PARITIES * GROUP * CODING_BYTES
    samples["reed_solomon"] = [work / timed(code) for _ in range(CODING_ROUNDS)]
    return samples


def aligned(content):
    """A buffer with this content on a boundary of 64 bytes, and its address."""
    buffer = ctypes.create_string_buffer(len(content) + 64)
    address = -(-ctypes.addressof(buffer) // 64) * 64
    ctypes.memmove(address, content, len(content))
    return buffer, address


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def bandwidth(samples):
    return f'"{statistics.median(samples) / 1e6:.0f} MB/s"'


def spread(samples):
    return f"{min(samples) / 1e6:.0f} to {max(samples) / 1e6:.0f} MB/s, n = {len(samples)}"


def tier_lines(name, folder, samples):
    latency = statistics.median(samples["latency"])
    return [
        f"# {name}: {folder}, {samples['mode']}; write {spread(samples['write'])};",
        f"# read {spread(samples['read'])}",
        f"{name} = {{ write = {bandwidth(samples['write'])}, read = {bandwidth(samples['read'])}, "
        f'latency = "{latency * 1e6:.0f} us" }}',
    ]


def profile(arguments):
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    load = os.getloadavg()[0]
    lines = [
        "# What a store of one host delivers to checkpoints",
        "#",
        f"# Measured {datetime.date.today()} by bench/profile_store.py: medians of",
        f"# {arguments.repeat} checkpoints of {arguments.mib} MiB, synced writes (durability sync) in",
        f"# blocks of 4 MiB, cold reads; ISA-L over {GROUP} shares of 8 MiB on one processor.",
        f"# {os.cpu_count()} x {processor()}, {memory_gib:.0f} GiB, Linux {platform.release()},",
        f"# load {load:.1f} at the start.",
        "# One host has no network to a partner: give `network` and `lower` of the machine meant.",
        "",
        "[storage]",
    ]
    for name, folder in (("memory", arguments.memory), ("local", arguments.local)):
        samples = measure_tier(folder, arguments.mib, arguments.repeat)
        lines += tier_lines(name, folder, samples)
        if name == "local":
            lines.append(f"# between two stores on the local tier: {spread(samples['copy'])}")
            lines.append(f"partner_copy = {bandwidth(samples['copy'])}")
    for name, samples in measure_coding().items():
        lines.append(f"# {spread(samples)}")
        lines.append(f"{name} = {bandwidth(samples)}")
    return "\n".join(lines) + "\n"


def main():
    arguments = parse_arguments()
    if os.geteuid() != 0:
        sys.exit("profile_store.py: run it as root: cold reads drop the kernel's caches")
    try:
        text = profile(arguments)
    except Absent as absent:
        sys.exit(f"profile_store.py: {absent}")
    if arguments.out:
        Path(arguments.out).write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
