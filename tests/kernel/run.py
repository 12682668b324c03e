#!/usr/bin/env python3
"""Boots Debian's own kernel 6.1 in QEMU and tests a store on it: see README.md."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
POSIX = ROOT / "tests" / "posix"
CACHE = ROOT / "target" / "kernel"
META_PACKAGE = "linux-image-cloud-amd64"
SERIES = "6.1."
MODULES = ("fuse", "virtio_pci", "virtio_blk")
USERS = {"root": 0, "games": 60, "nobody": 65534}
GROUPS = {"root": 0, "games": 60, "nogroup": 65534}
SYSTEMS = ("native", "floor", "ours")
# Hardware help either boots the kernel within this time or does not work on this host.
BOOT_LIMIT_S = 15


class MissingError(Exception):
    """Something that this host does not have; the test is skipped."""


# --- What the guest needs -----------------------------------------------------------------------


def need(program: str) -> str:
    """Finds a program of this host."""
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        raise MissingError(f"{program} is not installed")
    return found


def built(name: str, how: str) -> Path:
    """Finds one of our own release binaries or installed tools."""
    for directory in (ROOT / "target/release", ROOT / "target/tools/bin"):
        if (directory / name).is_file():
            return directory / name
    raise MissingError(f"{name} is not there ({how})")


def kernel_package() -> Path:
    """Fetches the newest kernel package of the series, once."""
    need("apt-get")
    depends = output_of("apt-cache", "depends", META_PACKAGE)
    match = re.search(rf"Depends: (linux-image-{re.escape(SERIES)}\S+)", depends)
    if not match:
        raise MissingError(f"apt knows no {META_PACKAGE} of the series {SERIES}x (Debian 12 does)")
    CACHE.mkdir(parents=True, exist_ok=True)
    pattern = f"{match[1]}_*.deb"
    if not list(CACHE.glob(pattern)):
        fetched = subprocess.run(
            ["apt-get", "download", match[1]], cwd=CACHE, capture_output=True, text=True
        )
        if fetched.returncode != 0:
            raise MissingError(f"apt-get download {match[1]}: {fetched.stderr.strip()}")
    return max(CACHE.glob(pattern))


def output_of(*command: str) -> str:
    """Runs a command and gives what it prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def module_order(modules: Path) -> list[Path]:
    """Lists the modules that we need after those that they depend on."""
    files = {path.stem.replace("-", "_"): path for path in modules.rglob("*.ko")}
    order: list[Path] = []

    def add(name: str) -> None:
        path = files[name]
        match = re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())
        for other in (match[1].decode() if match else "").split(","):
            if other:
                add(other.replace("-", "_"))
        if path not in order:
            order.append(path)

    for name in MODULES:
        add(name)
    return order


def make_initramfs(root: Path, modules: Path, sizes: dict[str, int]) -> Path:
    """Builds the guest's whole system; everything else lies on its disk."""
    for directory in ("bin", "etc", "root", "modules", "tests", "proc", "sys", "dev", "tmp", "run"):
        (root / directory).mkdir(parents=True)
    (root / "disk").mkdir()
    add_programs(root)
    order = module_order(modules)
    for module in order:
        shutil.copy(module, root / "modules")
    (root / "modules/order").write_text("".join(f"{path.name}\n" for path in order))
    ids = "{0}:x:{1}:{1}:{0}:/root:/bin/sh\n"
    (root / "etc/passwd").write_text("".join(ids.format(*user) for user in USERS.items()))
    (root / "etc/group").write_text("".join(f"{n}:x:{i}:\n" for n, i in GROUPS.items()))
    (root / "sizes").write_text("".join(f"{name}={value}\n" for name, value in sizes.items()))
    shutil.copy(POSIX / "pjdfstest.toml", root / "tests")
    shutil.copytree(POSIX / "fsx", root / "tests/fsx")
    shutil.copy(HERE / "guest.sh", root / "init")
    archive = root.with_suffix(".cpio")
    # Not compressed: an emulated processor takes longer to unpack it than to read it.
    packing = f"find . | {need('cpio')} --quiet --owner=0:0 -o -H newc >'{archive}'"
    subprocess.run(packing, shell=True, check=True, cwd=root)
    return archive


def add_programs(root: Path) -> None:
    """Copies our binaries, the suites and a shell, with their libraries."""
    busybox = need("busybox")
    linked = subprocess.run(["ldd", busybox], capture_output=True, text=True)
    if "not a dynamic" not in linked.stderr:
        raise MissingError("busybox is not the static one (package busybox-static)")
    shutil.copy(busybox, root / "bin/busybox")
    for name in output_of(busybox, "--list").split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    benches = "cargo build --release -p intarsia-bench-floor -p intarsia-bench-smallfiles"
    programs = [built("intarsia", "make build")]
    programs += [built(name, benches) for name in ("floor", "smallfiles")]
    programs += [built(name, "make setup-test installs it") for name in ("pjdfstest", "fsx")]
    # A suite copies it and runs the copy; a copy of busybox would not know what it is.
    programs.append(Path(need("sleep")))
    if fio := shutil.which("fio"):
        programs.append(Path(fio))
    for program in programs:
        target = root / "bin" / program.name
        target.unlink(missing_ok=True)
        shutil.copy(program, target)
        for library in re.findall(r"(/\S+) \(0x", output_of("ldd", str(program))):
            target = root / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)


# --- The guest ------------------------------------------------------------------------------------


@dataclass
class Step:
    """What one step of the guest printed, and its exit status."""

    code: int
    text: str

    def json(self) -> dict[str, Any]:
        """Reads the JSON document in the text."""
        document: dict[str, Any]
        document, _ = json.JSONDecoder().raw_decode(self.text[self.text.index("{") :])
        return document


@dataclass
class Guest:
    """A finished run: its steps by name, and the whole console."""

    acceleration: str
    steps: dict[str, Step] = field(default_factory=dict)
    console: str = ""
    is_finished: bool = False


class Machine:
    """QEMU with the kernel, until it powers off or a time limit is over."""

    def __init__(self, acceleration: str, kernel: Path, initramfs: Path, disk: Path) -> None:
        self.guest = Guest(acceleration)
        is_hardware = acceleration == "kvm"
        self.started = threading.Event()
        command = [
            need("qemu-system-x86_64"),
            *("-accel", "kvm" if is_hardware else "tcg,thread=multi"),
            *("-cpu", "host" if is_hardware else "max"),
            *("-smp", "2", "-m", "3072", "-nodefaults", "-nographic", "-no-reboot"),
            *("-serial", "stdio", "-kernel", str(kernel), "-initrd", str(initramfs)),
            *("-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"),
            *("-append", "console=ttyS0 quiet loglevel=1 panic=-1 random.trust_cpu=on"),
        ]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        name, lines = "", list[str]()
        for line in self.process.stdout or ():
            # The firmware clears the screen in front of the first line; the suites like colours.
            line = re.sub(r"\x1b(\[[0-9;?=]*[a-zA-Z]|c)", "", line).rstrip()
            self.guest.console += line + "\n"
            words = line.split()
            if line.startswith("@@ begin "):
                self.started.set()
                name, lines = words[2], []
            elif line.startswith("@@ end "):
                self.guest.steps[name] = Step(int(words[3]), "\n".join(lines))
                print(f"  {time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
            elif line == "@@ finished":
                self.guest.is_finished = True
            else:
                lines.append(line)

    def wait(self, limit_s: float) -> Guest:
        """Waits for the guest's end, but not longer than the limit."""
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.end()
        self.reader.join(5)
        return self.guest

    def end(self) -> None:
        """Ends QEMU."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def boot(choice: str, limit_s: float, *files: Path) -> Guest:
    """Runs the guest with hardware help where that works, else emulated."""
    deadline = time.monotonic() + limit_s
    for acceleration in ("kvm", "tcg") if choice == "auto" else (choice,):
        if acceleration == "kvm" and not os.access("/dev/kvm", os.R_OK | os.W_OK):
            continue
        machine = Machine(acceleration, *files)
        try:
            is_last = acceleration == "tcg"
            if is_last or machine.started.wait(BOOT_LIMIT_S):
                return machine.wait(deadline - time.monotonic())
            print(f"no boot with {acceleration} within {BOOT_LIMIT_S} s", file=sys.stderr)
        finally:
            machine.end()
    raise MissingError("/dev/kvm does not boot the kernel on this host")


# --- The judgement --------------------------------------------------------------------------------


def judge(guest: Guest) -> Iterator[tuple[str, bool, str]]:
    """Gives each check: its name, whether it holds, and what was seen."""

    def get(name: str) -> Step:
        return guest.steps.get(name, Step(-1, "did not run to its end"))

    kernel = get("kernel")
    yield "kernel", kernel.text.startswith(SERIES), kernel.text
    yield succeeded(get("up"), "up")
    yield mode_check(get("status"))
    yield pjdfstest_check(get("pjdfstest"))
    for settings in sorted((POSIX / "fsx").glob("*.toml")):
        yield succeeded(get(f"fsx-{settings.stem}"), f"fsx-{settings.stem}")
    for name in ("write", "kill", "again", "survivors", "check", "down", "offline"):
        yield succeeded(get(name), name)
    for name, step in guest.steps.items():
        if name.startswith(("small-", "fio-")) and step.code != 0:
            yield succeeded(step, name)
    messages = get("messages")
    yield "kernel messages", messages.code == 0 and not messages.text, messages.text or "none"
    yield "finished", guest.is_finished, "powered off" if guest.is_finished else "time limit"


def succeeded(step: Step, name: str) -> tuple[str, bool, str]:
    """Holds a step to exit status 0; its last line tells what it did."""
    lines = step.text.strip().splitlines()
    if step.code == 0:
        return name, True, lines[-1] if lines and not lines[-1].startswith("}") else "done"
    return name, False, f"exit status {step.code}\n{step.text}"


def mode_check(step: Step) -> tuple[str, bool, str]:
    """The node knows that this kernel has no passthrough, and says so."""
    if step.code != 0:
        return succeeded(step, "mode")
    mode = step.json()["passthrough"]
    is_said = not mode["in_force"] and "kernel" in mode["reason"]
    return "mode", is_said, f"passthrough {mode['in_force']}: {mode['reason']}"


def pjdfstest_check(step: Step) -> tuple[str, bool, str]:
    """All pass but those that are excluded for a reason."""
    exclusions = tomllib.loads((POSIX / "pjdfstest-exclusions.toml").read_text())
    excluded = {test for entry in exclusions.values() for test in entry["tests"]}
    skipped = set(re.findall(r"^(\S+::\S+)\s+skipped\s*$", step.text, re.MULTILINE))
    summary = re.findall(r"^Summary: .*$", step.text, re.MULTILINE)
    if step.code == 0 and skipped == excluded and "Summary: 0 failed" in step.text:
        return "pjdfstest", True, summary[0]
    unlike = f"skipped and not excluded, or the reverse: {sorted(skipped ^ excluded)}"
    failures = re.findall(r"^.*(?:FAILED|panicked).*$", step.text, re.MULTILINE)
    return "pjdfstest", False, "\n".join([f"exit status {step.code}", unlike, *failures])


# --- The figures ----------------------------------------------------------------------------------


def figures(guest: Guest) -> dict[str, dict[str, dict[str, float]]]:
    """Sorts the rates: by figure, by system, by round."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, step in guest.steps.items():
        kind, *rest = name.split("-")
        if kind not in ("small", "fio") or step.code != 0:
            continue
        system, turn = rest[0], rest[1]
        for figure, rate in rates(kind, rest[2:], step.json()):
            found.setdefault(figure, {}).setdefault(system, {})[turn] = rate
    return found


def rates(kind: str, rest: list[str], document: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Reads the rates of one step."""
    if kind == "small":
        for phase, values in document["phases"].items():
            yield f"small files: {phase}", values["per_s"]
    else:
        pattern = rest[0]
        side = "read" if "read" in pattern else "write"
        yield f"fio 4 KiB: {pattern}", document["jobs"][0][side]["iops"]


def print_figures(guest: Guest, cpus: str) -> None:
    """Prints medians and, round by round, the ratio of ours to the floor."""
    how = {"kvm": "hardware-assisted", "tcg": "emulated, so that only ratios mean anything"}
    print(f"\nMeasured in a VM ({cpus}, {how[guest.acceleration]}), operations per second:")
    print(f"{'':32}{'native':>12}{'floor':>12}{'ours':>12}{'ours / floor':>14}  min - max")
    for figure, by_system in figures(guest).items():
        medians = [statistics.median(by_system.get(s, {"": 0.0}).values()) for s in SYSTEMS]
        floor, ours = by_system.get("floor", {}), by_system.get("ours", {})
        ratios = [ours[turn] / floor[turn] for turn in ours if floor.get(turn)]
        line = f"{figure:32}" + "".join(f"{median:12.0f}" for median in medians)
        if ratios:
            span = f"{min(ratios):.2f} - {max(ratios):.2f}"
            line += f"{statistics.median(ratios):14.2f}  {span}"
        print(line)
    print("floor: bench/floor --writeback, a FUSE file system in memory behind which nothing costs")


# --- The command ----------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit-s", type=float, default=480, help="time for the guest")
    parser.add_argument("--accel", choices=("auto", "kvm", "tcg"), default="auto")
    parser.add_argument("--fsx-operations", type=int, default=2000, help="for each settings file")
    parser.add_argument("--files", type=int, default=300, help="files that a killed node must keep")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of the measurement")
    parser.add_argument("--small-files", type=int, default=500)
    parser.add_argument("--fio-mib", type=int, default=8)
    parser.add_argument("--console", type=Path, help="keep the guest's console in this file")
    return parser.parse_args()


def run(options: argparse.Namespace, scratch: Path) -> int:
    """Prepares, boots, judges; gives the exit status."""
    for program in ("qemu-system-x86_64", "mkfs.ext4", "dpkg"):
        need(program)
    package = kernel_package()
    subprocess.run(["dpkg", "-x", package, scratch / "package"], check=True)
    kernel = next((scratch / "package/boot").glob("vmlinuz-*"))
    sizes = {
        "FSX_OPERATIONS": options.fsx_operations,
        "FILES": options.files,
        "ROUNDS": options.rounds,
        "SMALL_FILES": options.small_files,
        "FIO_MIB": options.fio_mib,
    }
    initramfs = make_initramfs(scratch / "guest", scratch / "package/lib/modules", sizes)
    disk = scratch / "disk"
    with disk.open("wb") as image:
        image.truncate(4 << 30)
    subprocess.run([need("mkfs.ext4"), "-q", "-F", disk], check=True)
    guest = boot(options.accel, options.limit_s, kernel, initramfs, disk)
    if options.console:
        options.console.write_text(guest.console)
    failed = 0
    for name, holds, seen in judge(guest):
        print(f"{'ok    ' if holds else 'FAILED'} {name}: {seen}")
        failed += not holds
    print_figures(guest, "client and server on one processor")
    print(f"\n{failed} checks failed" if failed else "\nall checks hold")
    if not guest.is_finished:
        print("the console ended with:\n" + guest.console[-3000:])
    return 1 if failed else 0


def main() -> int:
    """Runs everything in a scratch directory that goes away again, also after a signal."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="intarsia-kernel-") as scratch:
        try:
            return run(options, Path(scratch))
        except MissingError as reason:
            print(f"SKIPPED: {reason}")
            return 1 if os.environ.get("INTARSIA_TEST_REQUIRE_ALL") == "1" else 0


if __name__ == "__main__":
    sys.exit(main())
