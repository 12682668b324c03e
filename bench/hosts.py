#!/usr/bin/env python3
"""Measures a store over more and more hosts of a lab: names, large directories, data, a storm of files.

All hosts share the processors of one machine, so rates over more hosts show no scaling in time: that is
not possible on one machine. What can be shown is what an operation costs: CPU is that of every process in
the lab's network namespaces, nodes and metadata servers, with what they do in the background until all is
settled, above what they spend when idle. The clients run outside and are not in it. Every measurement has its limit or peer in the same run.

  scaling   create + 4 KiB + close, stat, open + read, unlink, by one client on every host, in turn or at once
  growth    one directory that all hosts fill: the cost of an entry as it grows, and the listing; beside it
            the two ways to keep a directory's record, rewriting and appending, emulated on one metadata server
  local     writes and reads on each host in turn, against a directory of the same file system
  remote    a file read on another host, against the link and a plain TCP connection
  bounds    all hosts write and read at once over links of 100 Mbit/s: at home, of their neighbour, all of one
            host; beside it a central server, MooseFS on a host of its own
  blast     the files of a published BLAST run at a thousandth of their size, replayed on store and central server
  faults    a metadata server is killed under a client that creates files: the longest wait, and what is lost
  storm     many small files over all hosts (--storm 1000000): rate, memory, all listed, all read

example:
  bench/hosts.py --only scaling --hosts 1,4 --files 500 --repeat 1        a first look
  bench/hosts.py --out results/hosts.json
  bench/hosts.py --only storm --storm 1000000
"""

import itertools
import json
import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import command_line
import cluster
import labs
import peers

BODY = os.urandom(4096)
BLOCK = 1 << 20
# What of a link's rate can be payload: 1448 of 1514 bytes of a full frame (Ethernet, IPv4, TCP with time stamps).
PAYLOAD_SHARE = 1448 / 1514
BIT_PER_S = {"10mbit": 1e7, "100mbit": 1e8, "1gbit": 1e9, "10gbit": 1e10}
# How rows of `scaling` end.
MODES = ("as built", "leased", "strict")
LEASE_SWITCH = "--no-directory-leases"


def store_of(arguments, hosts, link=None, options=()):
    """A store over hosts of a lab."""
    options = [*options, *arguments.up]
    return labs.Intarsia(arguments.program, hosts, link, arguments.work, options=options)


def together(jobs):
    """Run every job in a process of its own from a common start; seconds to the end of the last."""
    context = multiprocessing.get_context("fork")
    gate = context.Barrier(len(jobs) + 1)

    def body(job):
        gate.wait(60)
        job()

    workers = [context.Process(target=body, args=(job,)) for job in jobs]
    try:
        for worker in workers:
            worker.start()
        gate.wait(60)
        begun = time.perf_counter()
        for worker in workers:
            worker.join()
        took = time.perf_counter() - begun
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.kill()
                worker.join()
    if any(worker.exitcode for worker in workers):
        sys.exit("hosts.py: a client failed, see above")
    return took


def in_turn(jobs):
    """Run every job in a process of its own, one after the other; seconds of all."""
    return sum(together([job]) for job in jobs)


def charged(system, jobs, count, leaves_work=True, way=together):
    """Operations a second of all jobs, and CPU milliseconds of the store an operation until it is settled.

    What the store spends on nothing, if that is known, is not the operations': the more hosts, the more it is.
    """
    before, begun = system.cpu_by_program_s(), time.perf_counter()
    took = way(jobs)
    if leaves_work:
        system.settle()
    seconds = time.perf_counter() - begun
    idle = getattr(system, "idle", {})
    spent, net = {}, {}
    for name, now in system.cpu_by_program_s().items():
        spent[name] = (now - before.get(name, 0)) * 1000 / count
        net[name] = spent[name] - idle.get(name, 0) * seconds * 1000 / count
    return {
        "per_s": count / took,
        "cpu_ms": sum(net.values()),
        "cpu_ms_by_program": net,
        "cpu_ms_with_idle": sum(spent.values()),
    }


def measure_idle(system, seconds):
    """The share of a processor that each program takes while nobody asks for anything."""
    time.sleep(1)
    before, begun = system.cpu_by_program_s(), time.perf_counter()
    time.sleep(seconds)
    took = time.perf_counter() - begun
    system.idle = {
        name: (now - before.get(name, 0)) / took for name, now in system.cpu_by_program_s().items()
    }
    return system.idle


def create(paths, body=BODY):
    """Create, write and close files."""
    for path in paths:
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644)
        if body:
            os.write(descriptor, body)
        os.close(descriptor)


def stat(paths):
    """Look at files."""
    for path in paths:
        os.stat(path)


def read(paths, body=BODY):
    """Open and read files, and compare."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        assert os.read(descriptor, len(body) + 1) == body, path
        os.close(descriptor)


def unlink(paths):
    """Remove files."""
    for path in paths:
        os.unlink(path)


def write_large(path, mib):
    """Write a file of some MiB; MiB a second."""
    block = os.urandom(BLOCK)
    begun = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for _ in range(mib):
            file.write(block)
    return mib / (time.perf_counter() - begun)


def read_large(path, mib):
    """Read it to its end; MiB a second."""
    begun = time.perf_counter()
    assert cluster.read_large(path) == mib << 20, path
    return mib / (time.perf_counter() - begun)


# How the clients of all hosts work: one sees what a message more costs, all at once what the machine bears.
WAYS = {"in turn": in_turn, "at once": together}


# --- scaling ----------------------------------------------------------------------------------------


def modes(program):
    """The stores to compare: with and without leases on directories, where `up` has a switch for them."""
    said = subprocess.run([program, "up", "--help"], capture_output=True, text=True, check=True).stdout
    return {"leased": (), "strict": (LEASE_SWITCH,)} if LEASE_SWITCH in said else {"as built": ()}


def scaling(arguments, found):
    """Every number of hosts in turn, in a store of its own."""
    for number in range(arguments.repeat):
        for hosts in arguments.hosts:
            for mode, options in modes(arguments.program).items():
                say(f"scaling: round {number + 1}, {hosts} hosts, {mode}")
                with store_of(arguments, hosts, options=options) as store:
                    warm_up(store)
                    for program, share in measure_idle(store, arguments.idle).items():
                        name = "metadata servers" if program == "redis-server" else "nodes"
                        found.add(f"idle [% of a core], {name}, {mode}", hosts, {"per_s": share * 100})
                    for clients, shared in itertools.product(arguments.clients, (False, True)):
                        where = "one directory" if shared else "own directories"
                        for what, row in names(store, arguments.files, shared, WAYS[clients]).items():
                            found.add(f"{what}, {where}, {clients}, {mode}", hosts, row)
                    found.add(f"up [s], {mode}", hosts, {"per_s": store.up_s})


def warm_up(store):
    """Every host has spoken with every other: connections are made once, not for each operation."""
    for n in store.numbers():
        for k in range(4 * store.hosts):
            place = store.mount(n) / f"warm{n}-{k}"
            place.mkdir()
            create([place / "f"])
    for n in store.numbers():
        owner = n % store.hosts + 1
        for k in range(4 * store.hosts):
            read([store.mount(n) / f"warm{owner}-{k}/f"])
    store.settle()


def names(store, files, shared, way):
    """Operations on small files by a client on every host, on its own files and on its neighbour's."""
    each = files // store.hosts // 2 * 2
    count = each * store.hosts
    hosts = list(store.numbers())

    def directory(owner, half):
        return f"shared{half}" if shared else f"own{owner}{half}"

    def paths(mounted_at, owner, halves="ab"):
        return [
            f"{store.mount(mounted_at)}/{directory(owner, half)}/f{owner}-{n}"
            for half in halves
            for n in range(each // 2)
        ]

    places = dict.fromkeys(store.mount(1) / directory(n, half) for n in hosts for half in "ab")
    for place in places:
        place.mkdir()
    # A program reads names from where it knows them; a client that builds them meanwhile measures itself.
    own = {n: paths(n, n) for n in hosts}

    def each_host(work, lists):
        return [lambda n=n: work(lists[n]) for n in hosts]

    rows = {
        "create + 4 KiB + close": charged(store, each_host(create, own), count, True, way),
        "stat, own": charged(store, each_host(stat, own), count, False, way),
        "open + read, own": charged(store, each_host(read, own), count, False, way),
    }
    if store.hosts > 1:
        # Two halves, so that what one operation brought here is of no use to the next.
        for half, what, work in (("a", "stat", stat), ("b", "open + read", read)):
            of_next = {n: paths(n, n % store.hosts + 1, half) for n in hosts}
            rows[f"{what}, of another host"] = charged(
                store, each_host(work, of_next), count // 2, False, way
            )
    rows["unlink, own"] = charged(store, each_host(unlink, own), count, True, way)
    for place in places:
        place.rmdir()
    return rows


# --- growth -----------------------------------------------------------------------------------------


def growth(arguments, found):
    """A directory that all hosts fill, in parts."""
    hosts, part = arguments.growth_hosts, arguments.entries // arguments.parts
    for number in range(arguments.repeat):
        say(f"growth: round {number + 1}")
        with store_of(arguments, hosts) as store:
            place = store.mount(1) / "large"
            place.mkdir()
            for step in range(arguments.parts):
                lists = {
                    n: [f"{store.mount(n)}/large/{step}-{n}-{k}" for k in range(part // hosts)]
                    for n in store.numbers()
                }
                jobs = [lambda n=n: create(lists[n], None) for n in store.numbers()]
                row = charged(store, jobs, part // hosts * hosts)
                found.add("create, empty file, through the store", (step + 1) * part, row)
                begun = time.perf_counter()
                listed = len(os.listdir(store.mount(hosts) / "large"))
                assert listed == part // hosts * hosts * (step + 1), listed
                row = {"per_s": listed / (time.perf_counter() - begun)}
                found.add("entries listed, on one host", (step + 1) * part, row)
            if number == 0 or arguments.repeat <= 3:
                emulate_records(store, arguments, found)


def emulate_records(store, arguments, found):
    """A directory's record on a metadata server, filled by a client on every host, kept in two ways."""
    part = arguments.entries // arguments.parts
    address = store.addresses[1]
    words = [
        "--bind",
        address,
        "--port",
        RECORD_PORT,
        "--save",
        "",
        "--protected-mode",
        "no",
        "--dir",
        store.dir,
    ]
    store.background(1, "redis-server", *words)
    listening = f":{RECORD_PORT:04X} "
    store.wait("a metadata server", lambda: listening in store.on(1, "cat", "/proc/net/tcp"))
    for way in ("append", "rewrite"):
        for step in range(arguments.parts):
            # Rewriting is quadratic: fill up unmeasured, then measure a sample.
            measured = min(part, arguments.sample)
            filled = (step + 1) * part - measured
            answers = [
                json.loads(answer)
                for answer in on_all(store, RECORD_CLIENT, address, RECORD_PORT, way, filled, measured)
            ]
            begun, ended = min(a["begun"] for a in answers), max(a["ended"] for a in answers)
            count = sum(a["count"] for a in answers)
            row = {
                "per_s": count / (ended - begun),
                "cpu_ms": (sum(a["cpu_s"] for a in answers) + answers[0]["server_cpu_s"]) * 1000 / count,
            }
            found.add(f"record of a directory, {way} (emulated)", (step + 1) * part, row)


RECORD_PORT = 7999
# Speaks the servers' protocol itself: a request is an array of strings.
RECORD_CLIENT = r"""
import json, resource, socket, sys, time
host, port, way, filled, measured, me, hosts, start = sys.argv[1:]
me, hosts, start = int(me), int(hosts), float(start)
filled, measured = int(filled), int(measured) // hosts
link = socket.create_connection((host, int(port)), 10)
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
stream = link.makefile("rb", buffering=1 << 20)

def answer():
    line = stream.readline()
    kind, rest = line[:1], line[1:-2]
    if kind == b"$":
        return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return None if rest == b"-1" else [answer() for _ in range(int(rest))]
    assert kind != b"-", line
    return rest

def ask(*words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    link.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
    return answer()

def server_cpu():
    info = ask("INFO", "cpu").decode()
    return sum(float(l.split(":")[1]) for l in info.splitlines() if l.startswith("used_cpu_") and l.split(":")[0] in ("used_cpu_sys", "used_cpu_user"))

entry = b"file-name-%010d-and-inode-0123;"
if me == 1:
    ask("SET", way, b"".join(entry % n for n in range(filled)))
time.sleep(max(0, start - time.monotonic()))
before = server_cpu() if me == 1 else 0
spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
begun = time.monotonic()
for n in range(measured):
    name = entry % (filled + n * hosts + me)
    if way == "append":
        ask("APPEND", way, name)
        continue
    while True:
        # Read, add, write, if nobody else wrote meanwhile.
        ask("WATCH", way)
        record = ask("GET", way)
        ask("MULTI")
        ask("SET", way, record + name)
        if ask("EXEC") is not None:
            break
ended = time.monotonic()
spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - spent
if me == 1:
    # The others' last requests are in.
    time.sleep(0.5)
print(json.dumps({"begun": begun, "ended": ended, "count": measured, "cpu_s": spent,
                  "server_cpu_s": server_cpu() - before if me == 1 else 0}))
"""


def on_all(store, script, *words):
    """Run a Python script on every host, given its number, how many there are, and a common start."""
    start = time.monotonic() + 1.5
    running = [
        subprocess.Popen(
            store.command(n, sys.executable, "-c", script, *words, n, store.hosts, start),
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in store.numbers()
    ]
    said = [one.communicate()[0] for one in running]
    if any(one.returncode for one in running):
        sys.exit("hosts.py: a client in the lab failed, see above")
    return said


# --- data -------------------------------------------------------------------------------------------


def local(arguments, found):
    """Each host in turn, its own mount and the file system below it."""
    for number in range(arguments.repeat):
        say(f"local: round {number + 1}")
        with store_of(arguments, arguments.data_hosts) as store:
            native = store.dir / "native"
            native.mkdir()
            # Whoever is first writes to memory that the machine's host has yet to find.
            write_large(native / "warm", arguments.mib)
            (native / "warm").unlink()
            for n in store.numbers():
                places = [
                    ("through the mount", store.mount(n) / f"local{n}"),
                    ("native", native / f"local{n}"),
                ]
                for what, path in places if (n + number) % 2 else places[::-1]:
                    row = {"per_s": write_large(path, arguments.mib)}
                    found.add(f"local write [MiB/s], {what}", f"n{n}", row)
                    row = {"per_s": rewrite(path, arguments.mib)}
                    found.add(f"local rewrite [MiB/s], {what}", f"n{n}", row)
                    row = {"per_s": read_large(path, arguments.mib)}
                    found.add(f"local read [MiB/s], {what}", f"n{n}", row)
                    path.unlink()


def rewrite(path, mib):
    """Write over what is there: no memory or disk is found for it; MiB a second."""
    block = os.urandom(BLOCK)
    begun = time.perf_counter()
    with open(path, "r+b", buffering=0) as file:
        for _ in range(mib):
            file.write(block)
    return mib / (time.perf_counter() - begun)


def remote(arguments, found):
    """One file read elsewhere, over links of several rates; a file of its own each time."""
    for number in range(arguments.repeat):
        for link in arguments.links:
            say(f"remote: round {number + 1}, {link}")
            rate = BIT_PER_S.get(link)
            # A few seconds each.
            mib = int(min(arguments.mib, rate / 8 * 4 / BLOCK)) if rate else arguments.mib
            with store_of(arguments, 3, rate and link) as store:
                for turn in range(2):
                    write_large(store.mount(1) / f"f{turn}", mib)
                store.settle()
                for turn in range(2):
                    found.add("plain TCP [MiB/s]", link, {"per_s": cluster.tcp_copy(store, mib)})
                    row = {"per_s": read_large(store.mount(2) / f"f{turn}", mib)}
                    found.add("read on another host [MiB/s]", link, row)
                    # The copy is kept in the background.
                    time.sleep(1)
                    row = {"per_s": read_large(store.mount(2) / f"f{turn}", mib)}
                    found.add("read there again [MiB/s]", link, row)
                if rate:
                    found.add(
                        "payload that the link can carry [MiB/s]",
                        link,
                        {"per_s": rate / 8 * PAYLOAD_SHARE / BLOCK},
                    )


SLOW_LINK = "100mbit"


def bounds(arguments, found):
    """All hosts at once over slow links: what is local, what is not, and what one server has."""
    over, link = f"{arguments.data_hosts} hosts", SLOW_LINK
    # What crosses links, and what does not: a few seconds each.
    far, near = max(1, arguments.mib // 16), arguments.mib

    def all_do(what, hosts, mib, work):
        took = together([lambda n=n: work(n) for n in hosts])
        found.add(what, over, {"per_s": mib * len(hosts) / took})

    for number in range(arguments.repeat):
        say(f"bounds: round {number + 1}")
        with store_of(arguments, arguments.data_hosts, link) as store:
            hosts = list(store.numbers())

            def at(n, name):
                return store.mount(n) / name

            all_do("all write [MiB/s], at home", hosts, near, lambda n: write_large(at(n, f"own{n}"), near))
            all_do("all read [MiB/s], at home", hosts, near, lambda n: read_large(at(n, f"own{n}"), near))
            for n in hosts:
                write_large(at(n, f"near{n}"), far)
                write_large(at(1, f"of-one{n}"), far)
            store.settle()
            next_of = {n: n % store.hosts + 1 for n in hosts}
            all_do(
                "all read [MiB/s], of their neighbour",
                hosts,
                far,
                lambda n: read_large(at(n, f"near{next_of[n]}"), far),
            )
            # The host that has them reads none, or a part would be local.
            all_do(
                "all read [MiB/s], of one host",
                hosts[1:],
                far,
                lambda n: read_large(at(n, f"of-one{n}"), far),
            )
        if not has_central(arguments):
            continue
        with peers.Central(arguments.program, arguments.data_hosts + 1, link, arguments.work) as central:
            hosts = list(central.numbers())[1:]
            # Another client reads it than wrote it, or its own cache would answer.
            reader_of = dict(zip(hosts, hosts[1:] + hosts[:1]))

            def there(n, owner):
                return central.mount(n) / f"own{owner}"

            all_do("all write [MiB/s], central server", hosts, far, lambda n: write_large(there(n, n), far))
            all_do(
                "all read [MiB/s], central server",
                hosts,
                far,
                lambda n: read_large(there(n, reader_of[n]), far),
            )


def has_central(arguments):
    """Whether there is a central server to compare with."""
    try:
        peers.Central.check(arguments.program)
    except labs.Absent as absent:
        say(f"the central server is left out: {absent}")
        return False
    return True


# --- replay -----------------------------------------------------------------------------------------

# ParallelBLAST as published (D. Zhao, PhD thesis, 2015, chapter 3): 541 GB in 16,192 files for every 64 nodes. The
# files keep their number; they and the links have a thousandth of the size. How files and bytes are dealt to the three
# stages is not published; half are taken to be the formatted database, half results.
BLAST_FILES = 16192 // 64
BLAST_BYTES = 541_000_000 // 16192
BLAST_HALF = BLAST_FILES // 2


def blast(arguments, found):
    """Weak scaling: every host formats its part of a database and searches in it; one merges all results."""
    for number in range(arguments.repeat):
        for hosts in arguments.replay_hosts:
            say(f"blast: round {number + 1}, {hosts} hosts")
            with store_of(arguments, hosts, SLOW_LINK) as store:
                replay(store, list(store.numbers()), "store", hosts, found)
            if has_central(arguments):
                with peers.Central(arguments.program, hosts + 1, SLOW_LINK, arguments.work) as central:
                    replay(central, list(central.numbers())[1:], "central server", hosts, found)


def replay(system, clients, name, hosts, found):
    """The three stages, one after the other, without any computing."""
    body = os.urandom(BLAST_BYTES)
    for n in clients:
        (system.mount(clients[0]) / f"{n}").mkdir()

    def paths(mounted_at, owner, kind):
        return [f"{system.mount(mounted_at)}/{owner}/{kind}{k}" for k in range(BLAST_HALF)]

    def search(n):
        read(paths(n, n, "database"), body)
        create(paths(n, n, "result"), body)

    def merge():
        for owner in clients:
            read(paths(clients[0], owner, "result"), body)

    stages = {
        "format": [lambda n=n: create(paths(n, n, "database"), body) for n in clients],
        "search": [lambda n=n: search(n) for n in clients],
        "merge": [merge],
    }
    took = {stage: together(jobs) for stage, jobs in stages.items()}
    for stage, seconds in took.items():
        found.add(f"BLAST replayed, {stage} [s], {name}", hosts, {"per_s": seconds})
    found.add(f"BLAST replayed, all stages [s], {name}", hosts, {"per_s": sum(took.values())})


# --- faults -----------------------------------------------------------------------------------------

BEFORE_S, AFTER_S = 2, 12


def faults(arguments, found):
    """A client on the second host creates files in many directories while the first loses its primary server."""
    over = f"{arguments.data_hosts} hosts"
    for number in range(arguments.repeat):
        say(f"faults: round {number + 1}")
        with store_of(arguments, arguments.data_hosts) as store:
            # So many that every partition of the metadata has some.
            directories = [f"d{k}" for k in range(16 * store.hosts)]
            for name in directories:
                (store.mount(1) / name).mkdir()
            context = multiprocessing.get_context("fork")
            answer, question = context.Pipe(duplex=False)
            client = context.Process(target=create_until, args=(store.mount(2), directories, question))
            client.start()
            time.sleep(BEFORE_S)
            server = store.process(1, "redis-server", f"{store.addresses[1]}:7401")
            os.kill(server, signal.SIGKILL)
            said = answer.recv() if answer.poll(AFTER_S + 60) else sys.exit("hosts.py: a client does not end")
            client.join()
            lost = sum(not (store.mount(3) / name).exists() for name in said["made"])
            for what, value in (
                ("longest wait of a create [s]", said["longest_s"]),
                ("creates refused", said["refused"]),
                ("creates acknowledged", len(said["made"])),
                ("acknowledged and lost", lost),
            ):
                found.add(f"metadata server killed: {what}", over, {"per_s": value})


def create_until(mount, directories, question):
    """Create files in turn in all directories for some seconds; send what was made, refused and waited for."""
    made, refused, longest_s, number = [], 0, 0.0, 0
    end = time.monotonic() + BEFORE_S + AFTER_S
    while (begun := time.monotonic()) < end:
        name = f"{directories[number % len(directories)]}/f{number}"
        try:
            create([mount / name], BODY[:100])
            made.append(name)
        except OSError:
            refused += 1
        longest_s = max(longest_s, time.monotonic() - begun)
        number += 1
    question.send({"made": made, "refused": refused, "longest_s": longest_s})


# --- storm ------------------------------------------------------------------------------------------


def storm(arguments, found):
    """Many small files in directories of some thousand over all hosts; then each is listed and read."""
    hosts, body = arguments.storm_hosts, BODY[: arguments.storm_bytes]
    each = arguments.storm // hosts
    directories = max(1, each // arguments.storm_directory)
    total = each * hosts
    say(f"storm: {total} files of {len(body)} bytes over {hosts} hosts")
    with store_of(arguments, hosts) as store:
        memory = store.memory_bytes()

        def paths(mounted_at, owner):
            base = store.mount(mounted_at)
            return (f"{base}/storm/{owner}/{n % directories}/f{n}" for n in range(each))

        for owner in store.numbers():
            for n in range(directories):
                (store.mount(owner) / f"storm/{owner}/{n}").mkdir(parents=True)
        cpu = store.cpu_s()
        took = together([lambda n=n: create(paths(n, n), body) for n in store.numbers()])
        created = store.cpu_s()
        row = {"per_s": total / took, "cpu_ms": (created - cpu) * 1000 / total}
        found.add("storm: create + write + close", total, row)
        begun = time.perf_counter()
        store.settle()
        found.add("storm: settled after [s]", total, {"per_s": time.perf_counter() - begun})
        found.add(
            "storm: CPU of settling [ms a file]", total, {"per_s": (store.cpu_s() - created) * 1000 / total}
        )
        for name, size in store.memory_bytes().items():
            each_file = (size - memory.get(name, 0)) / total
            if each_file >= 1:
                found.add(f"storm: memory of {name}, all hosts [bytes a file]", total, {"per_s": each_file})
                found.add(f"storm: memory of {name}, all hosts [MiB]", total, {"per_s": size / BLOCK})
        used = sum(tier["used_bytes"] for n in store.numbers() for tier in store.status(n)["tiers"])
        found.add("storm: tiers, all hosts [MiB]", total, {"per_s": used / BLOCK})

        def list_of_next(n):
            owner = n % hosts + 1
            for k in range(directories):
                names = set(os.listdir(store.mount(n) / f"storm/{owner}/{k}"))
                assert names == {f"f{m}" for m in range(k, each, directories)}, (owner, k, len(names))

        # On another host than the one that made them; every name and every byte is compared.
        jobs = [lambda n=n: list_of_next(n) for n in store.numbers()]
        found.add("storm: names listed, of another host", total, charged(store, jobs, total, False))
        sample = arguments.storm_read or each

        def read_of_next(n):
            chosen = list(paths(n, n % hosts + 1))
            if sample < each:
                chosen = random.Random(n).sample(chosen, sample)
            read(chosen, body)

        jobs = [lambda n=n: read_of_next(n) for n in store.numbers()]
        count = min(sample, each) * hosts
        found.add(
            f"storm: open + read + compare, {count} of them, of another host",
            total,
            charged(store, jobs, count, False),
        )
        store.stop()
        begun = time.perf_counter()
        store.start()
        found.add("storm: up again after down [s]", total, {"per_s": time.perf_counter() - begun})
        list_of_next(1)


# --- report -----------------------------------------------------------------------------------------


class Found:
    """All samples, by what was measured and over what."""

    def __init__(self):
        self.samples = {}

    def add(self, what, over, row):
        """One sample, with the load at its time."""
        row["load"] = os.getloadavg()[0]
        self.samples.setdefault(what, {}).setdefault(over, []).append(row)

    def show(self):
        """Median, spread and CPU, beside that of the first column that has it."""
        for what, columns in self.samples.items():
            print(f"\n{what}")
            cpu = {
                over: statistics.median(row["cpu_ms"] for row in rows)
                for over, rows in columns.items()
                if "cpu_ms" in rows[0]
            }
            # Beside one host, which keeps no copies of its metadata, four: what more hosts alone add.
            bases = dict.fromkeys([next(iter(cpu), None), 4 if what.endswith(tuple(MODES)) else None])
            for over, rows in columns.items():
                line = f"  {over!s:>10} {spread(row['per_s'] for row in rows)}"
                if over in cpu:
                    line += f"   CPU ms {spread((row['cpu_ms'] for row in rows), 3)}"
                    servers = [row.get("cpu_ms_by_program", {}).get("redis-server", 0) for row in rows]
                    gross = [row["cpu_ms_with_idle"] for row in rows if "cpu_ms_with_idle" in row]
                    if gross and statistics.median(gross) > cpu[over]:
                        line += f", with idle {statistics.median(gross):.3f}"
                    if any(servers):
                        line += f", of it metadata servers {statistics.median(servers):.3f}"
                    line += "".join(f" x{cpu[over] / cpu[b]:.2f} of {b}" for b in bases if cpu.get(b, 0) > 0.01)
                print(line + f"   load {statistics.median(row['load'] for row in rows):.1f}")


def spread(values, digits=None):
    """Median, least and most, and how many."""
    values = list(values)
    median = statistics.median(values)
    digits = (0 if abs(median) >= 100 else 2) if digits is None else digits
    return (
        f"{median:>10,.{digits}f} ({min(values):,.{digits}f} - {max(values):,.{digits}f}, n = {len(values)})"
    )


def say(what):
    """Progress goes to standard error."""
    print(what, file=sys.stderr, flush=True)


SECTIONS = {
    "scaling": scaling,
    "growth": growth,
    "local": local,
    "remote": remote,
    "bounds": bounds,
    "blast": blast,
    "faults": faults,
    "storm": storm,
}


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)

    def numbers(text):
        return [int(part) for part in text.split(",")]

    parser.add_argument(
        "--only", default="scaling,growth,local,remote,bounds,blast,faults", help="(default: %(default)s)"
    )
    parser.add_argument("--hosts", type=numbers, default=[1, 2, 4, 8, 16], help="of scaling")
    parser.add_argument(
        "--clients", type=lambda text: text.split(","), default=["in turn"], help=f"of {','.join(WAYS)}"
    )
    parser.add_argument("--files", type=int, default=3200, help="of scaling, over all hosts together")
    parser.add_argument("--idle", type=int, default=3, help="seconds of idleness to measure")
    parser.add_argument("--entries", type=int, default=40000, help="of growth")
    parser.add_argument("--parts", type=int, default=4, help="of growth")
    parser.add_argument(
        "--sample", type=int, default=400, help="entries measured of each part, when emulating"
    )
    parser.add_argument("--growth-hosts", type=int, default=4)
    parser.add_argument("--data-hosts", type=int, default=4, help="of local and bounds")
    parser.add_argument("--mib", type=int, default=256, help="size of a large file")
    parser.add_argument("--replay-hosts", type=numbers, default=[4, 8], help="of blast")
    parser.add_argument(
        "--links", type=lambda text: text.split(","), default=["100mbit", "1gbit", "unshaped"]
    )
    parser.add_argument("--storm", type=int, default=1_000_000, help="files")
    parser.add_argument("--storm-hosts", type=int, default=4)
    parser.add_argument("--storm-bytes", type=int, default=1024, help="of each file, 4096 at most")
    parser.add_argument("--storm-directory", type=int, default=5000, help="files in a directory")
    parser.add_argument("--storm-read", type=int, help="read only so many on each host, at random")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--work", default="/dev/shm", help="where the hosts' tiers and metadata lie")
    parser.add_argument("--up", type=str.split, default=[], help="options for `up`, as --up='--encrypt off'")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--out", type=Path, help="write all samples here, as JSON")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - SECTIONS.keys():
        parser.error(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if unknown := set(arguments.links) - BIT_PER_S.keys() - {"unshaped"}:
        parser.error(f"no link {', '.join(unknown)}; there are {', '.join(BIT_PER_S)} and unshaped")
    if unknown := set(arguments.clients) - WAYS.keys():
        parser.error(f"clients work {' or '.join(WAYS)}, not {', '.join(unknown)}")
    labs.end_on_signals()
    found = Found()
    try:
        labs.Intarsia.check(arguments.program)
        for name in chosen:
            SECTIONS[name](arguments, found)
    except labs.Absent as absent:
        sys.exit(f"hosts.py: {absent}")
    finally:
        # What was measured before a failure is not lost.
        found.show()
        if arguments.out and found.samples:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            said = {"arguments": vars(arguments), "samples": found.samples}
            arguments.out.write_text(json.dumps(said, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
