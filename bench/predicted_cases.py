"""The cases of bench/predicted.py: workloads of `intarsia predict`, and processes that do what they say."""

import contextlib
import math
import multiprocessing
import multiprocessing.connection
import os
import signal
import time

import labs

MIB, MB = 1 << 20, 1_000_000
#: Tasks in a chain.
STAGES = 3
PIECE = memoryview(os.urandom(MIB))


# What is run, as workloads of `intarsia predict`.


def little(case):
    """The bytes of a file that is small beside the others of a case."""
    return min(MB, of_mb(case) // 4)


def of_mb(case):
    """The bytes of a case."""
    return round(case["mb"] * MB)


def chain(case, widths):
    """`width` chains of three tasks, each of which reads what the one before wrote."""
    size, seconds = of_mb(case), case.get("compute_seconds", 0)
    tasks = []
    for n in range(widths):
        for stage in range(STAGES):
            tasks.append(task(f"s{stage}-{n}", [f"{stage}-{n}"], {f"{stage + 1}-{n}": size}, seconds))
    return tasks, {f"0-{n}": size for n in range(widths)}


def pipeline(case):
    return chain(case, case["width"])


def reduce(case):
    """`width` tasks read and write a part each, and one gathers all of them."""
    part = of_mb(case) // case["width"]
    tasks = [task(f"map-{n}", [f"in-{n}"], {f"part-{n}": part}) for n in range(case["width"])]
    tasks.append(task("gather", [f"part-{n}" for n in range(case["width"])], {"sum": of_mb(case)}))
    return tasks, {f"in-{n}": part for n in range(case["width"])}


def broadcast(case):
    """One task writes a file that `width` tasks read whole."""
    size = of_mb(case)
    tasks = [task("make", [], {"all": size})]
    tasks += [task(f"use-{n}", ["all"], {f"out-{n}": little(case)}) for n in range(case["width"])]
    return tasks, {}


def scatter(case):
    """One task writes a file of which `width` tasks read a region each."""
    region = of_mb(case) // case["width"]
    tasks = [task("make", [], {"matrix": region * case["width"]})]
    for n in range(case["width"]):
        made = task(f"use-{n}", [], {f"out-{n}": little(case)})
        read = {"read": "matrix", "offset_bytes": n * region, "size_bytes": region}
        made["operations"] = [{"open": "matrix"}, read, {"close": "matrix"}, *made["operations"]]
        tasks.append(made)
    return tasks, {}


def distribute(case):
    """One task writes a file for each of `width` tasks."""
    part = of_mb(case) // case["width"]
    tasks = [task("make", [], {f"piece-{n}": part for n in range(case["width"])})]
    tasks += [task(f"use-{n}", [f"piece-{n}"], {f"out-{n}": part}) for n in range(case["width"])]
    return tasks, {}


def small(case):
    """`width` tasks write many files of 4 KiB, and one reads all of them."""
    each = of_mb(case) // 4096 // case["width"]
    names = {n: [f"f-{n}-{at}" for at in range(each)] for n in range(case["width"])}
    tasks = [task(f"make-{n}", [], dict.fromkeys(found, 4096)) for n, found in names.items()]
    tasks.append(task("read", [name for found in names.values() for name in found], {"sum": 4096}))
    return tasks, {}


def gather(case):
    """`width` tasks write a part each without reading; one reads a region of each, and then all of them."""
    part = of_mb(case) // case["width"]
    tasks = [task(f"make-{n}", [], {f"part-{n}": part}) for n in range(case["width"])]
    sampled = [
        operation
        for n in range(case["width"])
        for operation in ({"open": f"part-{n}"}, {"read": f"part-{n}", "offset_bytes": 0, "size_bytes": part // 4}, {"close": f"part-{n}"})
    ]
    last = task("gather", [f"part-{n}" for n in range(case["width"])], {"sum": part})
    last["operations"] = sampled + last["operations"]
    return [*tasks, last], {}


def reuse(case):
    """`width` tasks read the same input, and one later stage reads it once more."""
    size = of_mb(case)
    tasks = [task(f"first-{n}", ["all"], {f"mid-{n}": little(case)}) for n in range(case["width"])]
    tasks += [task(f"again-{n}", ["all", f"mid-{n}"], {f"out-{n}": little(case)}) for n in range(case["width"])]
    return tasks, {"all": size}


PATTERNS = {f.__name__: f for f in (pipeline, reduce, broadcast, scatter, distribute, gather, reuse, small)}


def task(name, reads, writes, seconds=0.0):
    """A task that reads files whole, computes, and writes files whole."""
    operations = []
    for file in reads:
        operations += [{"open": file}, {"read": file}, {"close": file}]
    if seconds:
        operations.append({"compute_seconds": seconds})
    for file, size in writes.items():
        operations += [{"write": file, "size_bytes": size}, {"close": file}]
    return {"name": name, "stage": name.split("-")[0], "operations": operations}


def written(tasks):
    """Bytes of each file that tasks write."""
    return {o["write"]: o["size_bytes"] for one in tasks for o in one["operations"] if "write" in o}


def workload(tasks, inputs, overhead_s=0.0):
    """The form that `intarsia predict` reads."""
    files = inputs | written(tasks)
    return {
        "format": "intarsia-workload",
        "version": 1,
        "files": [{"name": name, "size_bytes": size} for name, size in files.items()],
        "tasks": [one | {"overhead_seconds": overhead_s} for one in tasks],
    }


# How it is run: each task in one of as many processes as there are slots.


def perform(directory, operations, into):
    """Do what a task does. Files are read and written by 1 MiB, from and to memory that the process has: what a program
    takes to get memory is none of a store's doing."""
    for operation in operations:
        if "compute_seconds" in operation:
            time.sleep(operation["compute_seconds"])
        elif "read" in operation:
            file = os.open(f"{directory}/{operation['read']}", os.O_RDONLY)
            os.lseek(file, operation.get("offset_bytes", 0), os.SEEK_SET)
            left = operation.get("size_bytes", math.inf)
            while left and (got := os.readv(file, [into[: min(left, MIB)]])):
                left -= got
            os.close(file)
        elif "write" in operation:
            file = os.open(f"{directory}/{operation['write']}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            left = operation["size_bytes"]
            while left:
                left -= os.write(file, PIECE[: min(left, MIB)])
            os.close(file)


def work(pipe):
    """What a process does: one task after the other, until nobody asks any more."""
    for number in labs.SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # ends at once, instead of clearing up what is not its own
    into = memoryview(bytearray(PIECE))
    with contextlib.suppress(EOFError):
        while True:
            try:
                pipe.send(perform(*pipe.recv(), into))
            except OSError as error:
                pipe.send(error)


class Crew:
    """Processes that do tasks, `slots` for each of so many hosts."""

    def __init__(self, slots, hosts=1):
        self.idle = {host: [] for host in range(hosts)}
        self.processes, self.busy = [], {}
        for host in sorted([*range(hosts)] * slots):
            here, there = multiprocessing.Pipe()
            process = multiprocessing.Process(target=work, args=(there,), daemon=True)
            process.start()
            there.close()
            self.processes.append(process)
            self.idle[host].append(here)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
            process.join()

    def is_idle(self, host):
        return bool(self.idle[host])

    def start(self, host, name, directory, operations):
        pipe = self.idle[host].pop()
        self.busy[pipe] = host, name
        pipe.send((str(directory), operations))

    def ended(self):
        """Wait until tasks end; their names."""
        for pipe in multiprocessing.connection.wait(list(self.busy)):
            if isinstance(failed := pipe.recv(), OSError):
                raise failed
            host, name = self.busy.pop(pipe)
            self.idle[host].append(pipe)
            yield name


def parents_of(tasks):
    """Who waits for whom."""
    writer = {o["write"]: one["name"] for one in tasks for o in one["operations"] if "write" in o}
    return {
        one["name"]: {writer[o["read"]] for o in one["operations"] if o.get("read") in writer}
        | set(one.get("after", ()))
        for one in tasks
    }


def run(crew, directories, tasks, inputs, held=None, hosts_of=None, draw=None):
    """Run all tasks, each as soon as it can; seconds from the first's start to the last's end.

    First come, first served. `inputs`: their bytes. `directories`: where each host has the store. `held`: the host that has each input. `hosts_of` tells the hosts that
    hold a file that was made; without it, that is the host that wrote it. As in the model, an idle host takes the first task of which it holds most of what
    that reads; what is left then goes to the first idle host, or any that `draw` chooses.
    """
    held = {file: hosts if isinstance(hosts, tuple) else (hosts,) for file, hosts in (held or {}).items()}
    sizes = inputs | written(tasks)
    begun, left = time.perf_counter(), parents_of(tasks)
    by_name, done, ready = {one["name"]: one for one in tasks}, set(), []
    while left or ready or crew.busy:
        now_ready = [name for name, parents in left.items() if parents <= done]
        for name in now_ready:
            del left[name]
        ready += now_ready
        if hosts_of:
            read = {o["read"] for name in now_ready for o in by_name[name]["operations"] if "read" in o}
            held |= {file: hosts_of(file) for file in read - held.keys()}
        near = {name: nearest(by_name[name]["operations"], held, sizes) for name in ready}
        while chosen := dealt(crew, ready, near, draw):
            name, host = chosen
            ready.remove(name)
            operations = by_name[name]["operations"]
            if not hosts_of:
                held |= {o["write"]: (host,) for o in operations if "write" in o}
            crew.start(host, name, directories[host], operations)
        done.update(crew.ended())
    return time.perf_counter() - begun


def nearest(operations, held, sizes):
    """The host that has most of what a task reads; None if nobody has any."""
    weight = {}
    for one in operations:
        hosts = held.get(one.get("read"), ())
        for host in hosts:
            share = one.get("size_bytes", sizes[one["read"]]) / len(hosts)
            weight[host] = weight.get(host, 0) + share
    return max(weight, key=lambda host: (weight[host], -host)) if weight else None


def dealt(crew, ready, near, draw=None):
    """The next task to start and its host: the first one that is near to an idle host, else the first of all on any."""
    idle = [host for host in crew.idle if crew.is_idle(host)]
    if not idle or not ready:
        return None
    first = next((name for name in ready if near[name] in idle), None)
    return (first, near[first]) if first else (ready[0], draw.choice(idle) if draw else idle[0])


def make_inputs(directories, inputs):
    """Inputs that lie on the medium and in nobody's memory, dealt over the hosts; which host has each."""
    held = {}
    for number, (name, size) in enumerate(inputs.items()):
        held[name] = number % len(directories)
        with open(directories[held[name]] / name, "wb") as file:
            for at in range(0, size, MIB):
                file.write(PIECE[: min(MIB, size - at)])
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return held
