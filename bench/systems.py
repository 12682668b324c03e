"""The file systems under comparison: how each is started, found, asked and stopped."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import processes
from processes import CommandFailed

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"

# Every command line of ours that the benchmarks depend on.
INTARSIA = {
    "up": "{program} up --dir {store} --mount {mount}",
    "up-without-passthrough": "{program} up --dir {store} --mount {mount} --no-passthrough",
    "down": "{program} down {mount}",
    "status": "{program} status --json {mount}",
    "metrics": "{program} status --metrics {mount}",
}


class Absent(Exception):
    """A system cannot be measured here; the message says what to install or build."""


class System:
    """A directory to work in, and perhaps a server behind it."""

    program = None
    hint = ""

    def __init__(self, name, base):
        self.name = name
        self.base = Path(base) / name
        self.mount = self.base / "mount"
        self.store = self.base / "store"
        self.server = None

    def check(self):
        """Raises `Absent` unless the program is there."""
        if self.program and not shutil.which(str(self.program)):
            raise Absent(f"{self.name}: {self.program} is missing; {self.hint}")

    def start(self):
        """Makes the directory usable and returns the seconds that took."""
        self.mount.mkdir(parents=True)
        self.store.mkdir()
        start = time.monotonic()
        self.launch()
        if self.program:
            processes.wait_until(self.is_usable, f"mount of {self.name}")
        return time.monotonic() - start

    def launch(self):
        """Starts the server; a plain directory needs none."""

    def spawn(self, *words):
        self.log = open(self.base / "server.log", "wb")
        self.server = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )

    def is_mounted(self):
        # Read from the list of mounts: a look at the mount point itself could hang.
        place = f" {self.mount} "
        return any(place in line for line in Path("/proc/self/mountinfo").read_text().splitlines())

    def is_usable(self):
        if self.server and self.server.poll() is not None:
            raise CommandFailed(f"{self.name} ended at once: {self.log_tail()}")
        return self.is_mounted() and self.mount.is_dir()

    def log_tail(self):
        return (self.base / "server.log").read_text(errors="replace")[-500:].strip()

    def pids(self):
        return [self.server.pid] if self.server else []

    def mode(self):
        """How file data reaches the disk, in the system's own words where it has any."""
        return ""

    def stop(self):
        """Unmounts, ends the server and removes every trace, whatever state they are in."""
        self.unmount()
        if self.server:
            processes.end(self.server)
            self.log.close()
            self.server = None
        if self.is_mounted():
            raise CommandFailed(f"{self.mount} is still mounted; {self.base} is left alone")
        shutil.rmtree(self.base, ignore_errors=True)

    def unmount(self):
        for words in (["fusermount3", "-u"], ["umount"], ["umount", "-l"]):
            if not self.is_mounted():
                return
            subprocess.run([*words, str(self.mount)], capture_output=True, timeout=60)


class Native(System):
    """A plain directory on the disk."""


class Floor(System):
    """The memory-only file system of this folder."""

    program = BUILD / "floor"
    hint = "cargo build --release -p intarsia-bench-floor"

    def __init__(self, name, base, *flags):
        super().__init__(name, base)
        self.flags = flags

    def launch(self):
        self.count_file = self.base / "requests.json"
        self.spawn(self.program, self.mount, "--count", self.count_file, *self.flags)

    def mode(self):
        return " ".join(self.flags).replace("--", "") or "writethrough"

    def requests(self):
        """Kernel requests by kind since the start."""
        self.count_file.unlink(missing_ok=True)
        self.server.send_signal(10)
        processes.wait_until(self.count_file.exists, "request counts of the floor")
        return json.loads(self.count_file.read_text())


class Bindfs(System):
    """A FUSE file system of the distribution that hands every request to the disk."""

    program = "bindfs"
    hint = "apt-get install bindfs"

    def launch(self):
        self.spawn(self.program, "-f", "--no-allow-other", self.store, self.mount)


class Intarsia(System):
    """Ours, over a store on the same disk."""

    program = Path(os.environ.get("INTARSIA", BUILD / "intarsia"))
    hint = "cargo build --release -p intarsia-cli, or name it in the environment as INTARSIA"

    def __init__(self, name, base, up):
        super().__init__(name, base)
        self.up = up
        self.node_pid = None

    def call(self, action, limit_s=60):
        places = {"program": self.program, "store": self.store, "mount": self.mount}
        words = [word.format(**places) for word in INTARSIA[action].split()]
        return processes.run(words, limit_s=limit_s).output

    def launch(self):
        self.call(self.up)

    def status(self):
        return json.loads(self.call("status"))

    def pids(self):
        # Asked once: the node stays the same process, and its command line does not name the store.
        if self.node_pid is None and self.is_mounted():
            self.node_pid = int(self.status()["pid"])
        return [self.node_pid] if self.node_pid else []

    def mode(self):
        passthrough = self.status().get("passthrough")
        if not isinstance(passthrough, dict):
            return f"passthrough {passthrough}"
        return "passthrough" if passthrough.get("in_force") else "write-back"

    def metrics(self):
        """The metrics of the node in Prometheus text."""
        return self.call("metrics")

    def requests(self):
        """Kernel requests by kind since the start."""
        counts = {}
        prefix = "intarsia_fuse_requests_total{"
        for line in self.metrics().splitlines():
            if line.startswith(prefix):
                labels, value = line[len(prefix) :].rsplit("}", 1)
                kind = dict(label.split("=", 1) for label in labels.split(","))["op"].strip('"')
                counts[kind] = counts.get(kind, 0) + int(float(value))
        if not counts:
            raise CommandFailed("the metrics hold no intarsia_fuse_requests_total")
        return counts

    def unmount(self):
        pids = []
        try:
            pids = self.pids()
            if self.is_mounted():
                self.call("down")
        except (CommandFailed, ValueError, KeyError) as failure:
            print(f"  {self.name}: down failed, cleaning up by hand: {failure}")
        super().unmount()
        for pid in pids:
            processes.finish(pid)


SYSTEMS = {
    "native": Native,
    "floor": Floor,
    "floor-writeback": lambda name, base: Floor(name, base, "--writeback"),
    "floor-lean": lambda name, base: Floor(name, base, "--lean", "--writeback"),
    "bindfs": Bindfs,
    "intarsia": lambda name, base: Intarsia(name, base, "up"),
    "intarsia-writeback": lambda name, base: Intarsia(name, base, "up-without-passthrough"),
}
