"""File systems over the hosts of a lab, for benchmarks: up, mounted on every host, and gone at the end.

Whatever a system starts, it starts within the lab's network namespaces; so these tell what belongs to it,
what it costs, and what is to end.
"""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import fine_cpu_s

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target/release/intarsia"
TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 60
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Absent(Exception):
    """A system cannot be measured here; the message says what to install or build."""


def end_on_signals():
    """Let the signals that end programs end the `with` blocks too."""
    for number in SIGNALS:
        signal.signal(number, lambda number, _: sys.exit(128 + number))


def present(kinds, program):
    """Those of the systems, by name, that can be measured here; the others are named with the reason."""
    found = {}
    for name, kind in kinds.items():
        try:
            kind.check(program)
            found[name] = kind
        except Absent as absent:
            print(f"{Path(sys.argv[0]).name}: {name} is left out: {absent}", file=sys.stderr)
    return found


def in_turn(names, rounds):
    """The number of a round and a name, for each name in each round."""
    names = list(names)
    for number in range(rounds):
        # Whoever came first would always meet the quieter machine.
        first = number % max(1, len(names))
        for name in names[first:] + names[:first]:
            print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr)
            yield number, name


@contextlib.contextmanager
def undisturbed():
    """Clearing up is not interrupted."""
    before = [signal.signal(number, signal.SIG_IGN) for number in SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(SIGNALS, before):
            signal.signal(number, handler)


def is_mounted(path):
    """Read from the list of mounts: a look at a mount point whose server is dead could hang."""
    return any(line.split()[4] == str(path) for line in open("/proc/self/mountinfo"))


def require(programs, modules=()):
    """Raise `Absent` unless programs, each with its Debian package, and modules of Python are there."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise Absent(f"the Python module {module} is missing; run this with .venv/bin/python after make setup")
    for program, package in programs.items():
        if not shutil.which(program):
            raise Absent(f"{program} is missing; apt-get install {package}")


class Lab:
    """A lab with a file system on all of its hosts; both end with the block, also after a failure."""

    # Programs that must be there, and the Debian packages that have them.
    needs = {"redis-server": "redis-server"}
    # Programs that no package has, and what builds them.
    built = {}

    def __init__(self, program, hosts, link=None, work="/dev/shm", **rest):
        self.program, self.hosts, self.link, self.work = program, hosts, link, work
        self.lab = f"b{os.getpid()}"
        self.children = []
        vars(self).update(rest)

    @classmethod
    def check(cls, program):
        """Raises `Absent` unless everything is there."""
        if os.geteuid() != 0:
            raise Absent("a lab needs root")
        if not shutil.which(str(program)):
            raise Absent(f"{program} is missing; cargo build --release -p intarsia-cli")
        path = os.environ["PATH"] + ":/usr/sbin:/sbin"
        missing = {name: package for name, package in cls.needs.items() if not shutil.which(name, path=path)}
        if missing:
            packages = " ".join(dict.fromkeys(missing.values()))
            raise Absent(f"{', '.join(missing)} missing; apt-get install {packages}")
        for name, how in cls.built.items():
            if not shutil.which(name):
                raise Absent(f"{name} is missing; {how}")

    def __enter__(self):
        self.check(self.program)
        if self.work:
            Path(self.work).mkdir(parents=True, exist_ok=True)
        self.dir = Path(tempfile.mkdtemp(prefix="bench-lab-", dir=self.work))
        link = ["--link", self.link] if self.link else []
        try:
            self.intarsia("lab", "up", self.lab, "--nodes", str(self.hosts), *link)
            self.spaces = {self.on(n, "readlink", "/proc/self/ns/net").strip() for n in self.numbers()}
            self.addresses = {
                n: self.on(n, "sh", "-c", "echo $INTARSIA_LAB_ADDRESS").strip() for n in self.numbers()
            }
            started = time.perf_counter()
            self.start()
            self.up_s = time.perf_counter() - started
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        with undisturbed():
            self.stop()
            for words in (["umount"], ["umount", "--lazy"]):
                for mount in filter(is_mounted, map(self.mount, self.numbers())):
                    subprocess.run([*words, mount], capture_output=True, timeout=60)
            self.intarsia("lab", "down", self.lab, "--kill", check=False)
            for child in self.children:
                child.wait()
            if left := [mount for mount in map(self.mount, self.numbers()) if is_mounted(mount)]:
                print(f"still mounted, and {self.dir} left alone: {left}", file=sys.stderr)
            else:
                shutil.rmtree(self.dir, ignore_errors=True)

    def start(self):
        """Bring the system up and mount it on every host."""
        raise NotImplementedError

    def stop(self):
        """Take down what does not simply end with its processes."""

    def numbers(self):
        """The hosts' numbers."""
        return range(1, self.hosts + 1)

    def mount(self, host):
        """Where a host has the file system mounted."""
        return self.dir / f"mnt-n{host}"

    def intarsia(self, *words, check=True):
        """Run intarsia to its end; what it printed."""
        words = [str(word) for word in words]
        done = subprocess.run([self.program, *words], capture_output=True, text=True)
        if check and done.returncode:
            sys.exit(f"intarsia {' '.join(words)}: {done.stderr}")
        return done.stdout

    def command(self, host, *words):
        """The words that run a program on a host."""
        return [self.program, "lab", "exec", "--lab", self.lab, f"n{host}", "--", *map(str, words)]

    def on(self, host, *words, check=True):
        """Run a program on a host to its end; what it printed."""
        done = subprocess.run(self.command(host, *words), capture_output=True, text=True)
        if check and done.returncode:
            sys.exit(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
        return done.stdout

    def background(self, host, *words):
        """Start a program on a host; it ends with the lab."""
        with open(self.dir / "background.log", "ab") as log:
            child = subprocess.Popen(
                self.command(host, *words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.children.append(child)

    def wait(self, what, is_true, pause_s=0.05):
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_true():
            if time.monotonic() > deadline:
                log = self.dir / "background.log"
                said = log.read_text(errors="replace")[-2000:] if log.exists() else ""
                sys.exit(f"{what} did not come about in {PATIENCE_S} s:\n{said}")
            time.sleep(pause_s)

    def processes(self):
        """The directories in /proc of all processes on the hosts."""
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.readlink(entry / "ns/net") in self.spaces:
                    yield entry

    def process(self, host, name, word):
        """The number of the process of a program on a host that has a word in its command line."""
        space = self.on(host, "readlink", "/proc/self/ns/net").strip()
        for entry in self.processes():
            with contextlib.suppress(OSError):
                is_it = os.readlink(entry / "ns/net") == space and word in (entry / "cmdline").read_text()
                if is_it and (entry / "comm").read_text().strip() == name:
                    return int(entry.name)
        sys.exit(f"no {name} with {word} on host {host}")

    def cpu_s(self):
        """CPU seconds so far of the processes that run on the hosts now."""
        return sum(self.cpu_by_program_s().values())

    def cpu_by_program_s(self):
        """The same by the name of the program."""
        total = {}
        for entry in self.processes():
            with contextlib.suppress(OSError):
                _, _, rest = (entry / "stat").read_text().partition("(")
                name, _, fields = rest.rpartition(") ")
                fields = fields.split()
                ticks_s = (int(fields[11]) + int(fields[12])) / TICKS
                # Ticks are coarse, and the fine count lacks threads that ended: each is too little at most.
                total[name] = total.get(name, 0) + max(ticks_s, fine_cpu_s([entry.name]))
        return total

    def memory_bytes(self):
        """Resident memory of the processes on the hosts by the name of the program."""
        total = {}
        for entry in self.processes():
            with contextlib.suppress(OSError):
                fields = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines())
                size = int(fields.get("VmRSS", "0").split()[0]) * 1024
                name = fields["Name"].strip()
                total[name] = total.get(name, 0) + size
        return total

    def settle(self):
        """Wait until the system has done what it does in the background."""


class Native(Lab):
    """A directory of this machine that all hosts share: what no file system over hosts can beat."""

    def start(self):
        """One directory, by as many names as there are hosts."""
        (self.dir / "native").mkdir()
        for n in self.numbers():
            self.mount(n).symlink_to(self.dir / "native")


class Intarsia(Lab):
    """A store with metadata servers of its own; `options` go to `up`."""

    options = ()

    def start(self):
        """Nodes and servers."""
        place = ["--lab", self.lab, "--dir", f"{self.dir}/{{host}}", "--wait", "60s"]
        self.intarsia("up", f"{self.dir}/mnt-{{host}}", *place, *self.options)

    def stop(self):
        """The servers end with the store."""
        self.intarsia("down", f"{self.dir}/mnt-{{host}}", "--lab", self.lab, check=False)

    def status(self, host):
        """What a node says of itself."""
        return json.loads(self.intarsia("status", self.mount(host), "--json"))

    def settle(self):
        """Closed files are given their final form in the background."""

        def is_settled():
            said = [self.status(n) for n in self.numbers()]
            return all(one["unsettled"] == 0 and one["not_yet_checksummed"] == 0 for one in said)

        # Asking costs the nodes time that is not to be taken for work.
        self.wait("settling", is_settled, 0.5)


class Strict(Intarsia):
    """Ours, asking the metadata servers for every name."""

    options = ("--no-directory-leases",)
