"""What is done in each file system: each workload prepares, runs timed steps, and verifies."""

import fnmatch
import itertools
import json
import os
import random
import shutil
import subprocess
import tarfile
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Callable, Optional

import processes
from systems import BUILD

MIB = 1 << 20
SMALLFILES = BUILD / "smallfiles"
TREE_FILES = 3000

# Times are left out: bindfs 1.14 loses the one that tar sets, and its cell should still count.
COMPARE = '! tar -df "$1" -C "$2" | grep -v \'Mod time differs\''

TREE_COMMITS = 20


@dataclass
class Measure:
    """One figure of a step; `better` says whether "more" or "less" of it is good."""

    metric: str
    value: float
    unit: str
    better: str
    operations: Optional[int] = None
    client_cpu_s: Optional[float] = None
    server_cpu_s: Optional[float] = None


@dataclass
class Step:
    """A timed command. Without `parse` its figure is the wall-clock time."""

    metric: str
    command: list
    parse: Optional[Callable] = None
    env: dict = field(default_factory=dict)
    cwd: Optional[Path] = None
    limit_s: int = 1800

    def measures(self, cost):
        if self.parse:
            return self.parse(cost.output)
        return [Measure(self.metric, cost.wall_s, "s", "less")]


@dataclass
class Settings:
    """Sizes that `--quick` and other flags change."""

    fio_mib: int
    fio_runtime_s: float
    jobs: list
    files: list
    clients: list
    workflow: Optional[str]
    cache: Path


class Workload:
    """Something to do in a directory."""

    needs = ()

    def __init__(self, name, settings, pinned=False):
        self.name = name + ("-pinned" if pinned else "")
        self.settings = settings
        self.pinned = pinned

    def prepare(self, directory):
        """Untimed work before the steps."""

    def steps(self, directory, pids):
        raise NotImplementedError

    def verify(self, directory):
        """Untimed check of the result: a fast wrong answer is no answer."""

    def missing(self):
        return [program for program in self.needs if not shutil.which(str(program))]


class Fio(Workload):
    """One pattern of fio on files that are in the page cache where the file system allows it."""

    needs = ("fio",)

    def __init__(self, pattern, block, jobs, settings):
        super().__init__(f"fio-{pattern}-{block}-{jobs}", settings)
        self.pattern, self.block, self.jobs = pattern, block, jobs

    def command(self, directory, pattern, block, *more):
        return [
            "fio",
            "--name=bench",
            f"--directory={directory}",
            "--filename_format=data.$jobnum",
            f"--rw={pattern}",
            f"--bs={block}",
            f"--numjobs={self.jobs}",
            f"--size={self.settings.fio_mib}m",
            "--ioengine=psync",
            "--direct=0",
            "--invalidate=0",
            "--end_fsync=0",
            "--fallocate=none",
            "--group_reporting",
            "--output-format=json",
            *more,
        ]

    def prepare(self, directory):
        # A sequential write makes its own files, as a program does; all else finds them written.
        if self.pattern != "write":
            processes.run(self.command(directory, "write", "1m"))

    def steps(self, directory, pids):
        more = []
        if self.pattern in ("read", "randread"):
            more = [
                "--readonly",
                "--time_based",
                f"--runtime={self.settings.fio_runtime_s * 1000:.0f}ms",
            ]
        if self.pattern.startswith("rand"):
            more.append("--norandommap")
        return [Step("rate", self.command(directory, self.pattern, self.block, *more), self.parse)]

    def parse(self, output):
        job = json.loads(output[output.index("{") :])["jobs"][0]
        side = job["read" if "read" in self.pattern else "write"]
        if self.block == "4k":
            return [Measure("rate", side["iops"], "1/s", "more", side["total_ios"])]
        return [Measure("bandwidth", side["bw_bytes"] / MIB, "MiB/s", "more", side["total_ios"])]


class Small(Workload):
    """Small files in one directory, phase by phase."""

    needs = (SMALLFILES,)

    def __init__(self, files, clients, settings, pinned=False):
        super().__init__(f"small-{files}-{clients}", settings, pinned)
        self.files, self.clients = files, clients

    def steps(self, directory, pids):
        command = [
            str(SMALLFILES),
            str(directory),
            "--files",
            str(self.files),
            "--clients",
            str(self.clients),
        ]
        if pids:
            command += ["--server-pids", ",".join(map(str, pids))]
        return [Step("", command, self.parse, limit_s=3600)]

    def parse(self, output):
        phases = json.loads(output)["phases"]
        return [
            Measure(
                name,
                phase["per_s"],
                "1/s",
                "more",
                phase["operations"],
                phase["client_cpu_s"],
                phase["server_cpu_s"],
            )
            for name, phase in phases.items()
        ]


class GitClone(Workload):
    """Clones a generated repository through the pack protocol."""

    needs = ("git",)

    def steps(self, directory, pids):
        source = self.settings.cache / "repository.git"
        command = ["git", "clone", "-q", "--no-local", str(source), str(directory / "clone")]
        return [
            Step("clone", command, env=git_environment(self.settings.cache)),
            Step(
                "status",
                ["git", "-C", str(directory / "clone"), "status", "--porcelain"],
                env=git_environment(self.settings.cache),
            ),
        ]

    def verify(self, directory):
        git = ["git", "-C", str(directory / "clone")]
        environment = git_environment(self.settings.cache)
        if processes.run([*git, "status", "--porcelain"], env=environment).output:
            raise processes.CommandFailed("the clone differs from what was committed")
        processes.run([*git, "fsck", "--full"], env=environment)


class Untar(Workload):
    """Unpacks a generated archive, then removes the tree."""

    needs = ("tar",)

    def steps(self, directory, pids):
        archive = str(self.settings.cache / "tree.tar")
        return [
            Step("unpack", ["tar", "-xf", archive, "-C", str(directory)]),
            Step("compare", ["sh", "-c", COMPARE, "compare", archive, str(directory)]),
            Step("remove", ["rm", "-rf", str(directory / "tree")]),
        ]


class Workflow(Workload):
    """A command of the user's, run by a shell inside the file system."""

    def steps(self, directory, pids):
        environment = {**os.environ, "BENCH_DIRECTORY": str(directory)}
        return [Step("run", ["sh", "-c", self.settings.workflow], env=environment, cwd=directory)]


def git_environment(home):
    """Without the configuration of the machine, and with fixed people and times."""
    who = {"NAME": "Bench", "EMAIL": "bench@example.org", "DATE": "2024-01-01T00:00:00Z"}
    people = {
        f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()
    }
    plain = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    return {**plain, **people}


def generated_tree():
    """Path and content of each file: sizes like those of source code, always the same."""
    source = random.Random(20240101)
    for number in range(TREE_FILES):
        size = min(int(source.lognormvariate(8.0, 1.3)), 256 * 1024)
        line = f"{source.getrandbits(256):064x}\n".encode()
        content = line * (size // len(line)) + line[: size % len(line)]
        yield f"tree/part-{number % 60:02d}/group-{number % 7}/file-{number:04d}.txt", content


def make_archive(path):
    with tarfile.open(path, "w") as archive:
        for name, content in generated_tree():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), 1704067200
            member.uid, member.gid = os.getuid(), os.getgid()
            archive.addfile(member, BytesIO(content))


def make_repository(path):
    """A bare repository whose commits each add a share of the tree and change some older files."""
    environment = git_environment(path.parent)
    subprocess.run(
        ["git", "init", "-q", "--bare", "-b", "main", str(path)], check=True, env=environment
    )
    stream = BytesIO()
    files = list(generated_tree())
    for commit in range(TREE_COMMITS):
        message = f"Commit {commit}".encode()
        stamp = f"Bench <bench@example.org> {1704067200 + commit} +0000".encode()
        stream.write(
            b"commit refs/heads/main\ncommitter %s\ndata %d\n%s\n" % (stamp, len(message), message)
        )
        for name, content in files[commit::TREE_COMMITS]:
            write_file(stream, name, content)
        for name, content in files[: commit * 10 : 7]:
            write_file(stream, name, content + message)
    feed = ["git", "-C", str(path), "fast-import", "--quiet"]
    subprocess.run(feed, input=stream.getvalue(), check=True, env=environment)


def write_file(stream, name, content):
    stream.write(b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(content), content))


def make_sources(cache):
    """What the workloads read, made once on the native disk."""
    cache.mkdir(parents=True, exist_ok=True)
    if not (cache / "tree.tar").exists():
        make_archive(cache / "tree.tar")
    if shutil.which("git") and not (cache / "repository.git").exists():
        make_repository(cache / "repository.git")


def all_workloads(settings):
    patterns = ("read", "randread", "write", "randwrite")
    found = [Fio(*shape, settings) for shape in itertools.product(patterns, ("4k", "1m"), settings.jobs)]
    found += [
        Small(*shape, settings) for shape in itertools.product(settings.files, settings.clients)
    ]
    found += [GitClone("git", settings), Untar("untar", settings)]
    found += [Small(files, 1, settings, pinned=True) for files in settings.files]
    found += [GitClone("git", settings, pinned=True), Untar("untar", settings, pinned=True)]
    if settings.workflow:
        found.append(Workflow("workflow", settings))
    return found


def choose(workloads, wanted):
    """The workloads that match a name, a leading part of it, or a pattern."""
    return [
        workload
        for workload in workloads
        if any(
            fnmatch.fnmatch(workload.name, pattern)
            or workload.name.startswith(f"{pattern}-")
            or pattern == "all"
            for pattern in wanted
        )
    ]
