"""Tasks run beside their data: the adapters with the real engines, on a store over four hosts."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor as ThreadPool
from pathlib import Path

import parsl
import pytest
from distributed import Client, LocalCluster
from intarsia.engines import dask as beside_data
from intarsia.engines.parsl import PlacedExecutor, StoreStaging
from intarsia.locate import Located, locate
from intarsia.schedule import Policy, blind
from intarsia.tag import hints_on
from lab_hosts import ROOT, Hosts, four_hosts
from parsl import Config, File
from parsl.executors import ThreadPoolExecutor
from psutil import Process, process_iter
from runs import wait_until

NAMES = "n1,n2,n3,n4"
#: The first address of a lab's network.
ADDRESS = "10.77.0.1"
EXAMPLES = ROOT / "docs/user/engines"
# Above what stands beside its inode, also when packed.
PART_LINES = 60_000


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A store over four hosts."""
    with four_hosts("engines-") as hosts:
        yield hosts


@pytest.fixture
def job(hosts: Hosts) -> Path:
    """A new directory of the store, by the path of the first host."""
    return hosts.new_directory()


def make_parts(hosts: Hosts, job: Path, count: int = 4, *, grow: int = 0) -> None:
    """Have the third and the fourth host write files in turn; the third some lines more."""
    (job / "parts").mkdir()
    chance = random.Random(5)
    for number in range(count):
        size = PART_LINES + (0 if number % 2 else grow)
        lines = ["# a part\n", *(f"{chance.getrandbits(128):032x}\n" for _ in range(size))]
        mount = hosts.store.mounts[2 + number % 2]
        (mount / job.name / "parts" / f"{number}.txt").write_text("".join(lines))


def host_of_file(path: Path) -> str:
    (file,) = locate([path]).files
    assert file.problem is None, file
    assert len(file.hosts) == 1, file
    return file.hosts[0]


def local_tasks(job: Path) -> int:
    """Count the tasks that ran where their input lies: a file is born where it was written."""
    steps = []
    for part in sorted((job / "parts").iterdir()):
        cleaned, packed = job / "clean" / part.name, job / "packed" / f"{part.name}.gz"
        assert cleaned.stat().st_size == part.stat().st_size - len("# a part\n")
        steps += [(part, cleaned), (cleaned, packed)]
    return sum(host_of_file(source) == host_of_file(target) for source, target in steps)


def run_example(hosts: Hosts, job: Path, engine: str, *options: str) -> str:
    """Run an example of the users' pages on the first host, for work on all of them."""
    place = hosts.mount / job.name
    if engine == "snakemake":
        words = ["-m", "snakemake", "--executor", "intarsia", "--jobs", "4"]
        words += ["--intarsia-hosts", NAMES, "--intarsia-shell", hosts.shell]
        words += ["--snakefile", str(EXAMPLES / "Snakefile"), "--directory", str(place)]
    else:
        words = [str(EXAMPLES / f"{engine}_pipeline.py"), str(place), "--hosts", NAMES]
        words += ["--address", ADDRESS, "--shell", hosts.shell]
    return hosts.python("n1", *words, *options)


def test_dask_runs_every_task_where_its_input_lies(hosts: Hosts, job: Path) -> None:
    make_parts(hosts, job)
    run_example(hosts, job, "dask", "--patience", "60")
    assert local_tasks(job) == 8


def test_dask_by_itself_does_not(hosts: Hosts, job: Path) -> None:
    """Four workers take a task each, and two hosts have the input."""
    make_parts(hosts, job)
    run_example(hosts, job, "dask", "--blind")
    assert local_tasks(job) < 8


def test_dask_by_hand_and_what_is_no_store(hosts: Hosts, job: Path) -> None:
    make_parts(hosts, job, 1)
    part = job / "parts/0.txt"
    loopback = "127.0.0.1:0"
    cluster = LocalCluster(
        n_workers=2,
        processes=False,
        dashboard_address=loopback,
        worker_dashboard_address=loopback,
    )
    with cluster, Client(cluster) as client:
        with pytest.raises(ValueError, match=r"worker .*: /proc is in no store there"):
            beside_data.install(client, "/proc")
        here = beside_data.workers_by_host(client, job)
        assert [len(workers) for workers in here.values()] == [2]
        assert beside_data.beside([part], here) is None
        assert beside_data.beside([part], here | {"n3": ["tcp://there"]}) == ["tcp://there"]
    found = beside_data.paths_in({"a": ["/x", Path("/y")], "b": ({"/z"}, 7)})
    assert list(found) == ["/x", "/y", "/z"]


#: Four tasks that begin at once, each where a file of its own lies, and read one file besides.
SHARED = """
import subprocess, sys, time
from contextlib import ExitStack
from pathlib import Path
from distributed import Client, Event, LocalCluster
from intarsia.engines import dask as beside_data
from intarsia.engines.shell import on_host

place, shell, address, hints = Path(sys.argv[1]), *sys.argv[2:]

def opened():
    Event("go").wait()

def read(own, big, after):
    from pathlib import Path
    return len(Path(own).read_bytes()) + len(Path(big).read_bytes())

with (
    LocalCluster(n_workers=0, host=address, dashboard_address=None) as cluster,
    ExitStack() as workers,
    Client(cluster) as client,
):
    worker = f"{sys.executable} -m distributed.cli.dask_worker {cluster.scheduler_address}"
    for host in ("n1", "n2", "n3", "n4"):
        command = f"exec {worker} --name {host} --nthreads 1 --no-nanny --no-dashboard"
        words = on_host(shell, host, command, Path("/tmp"))
        process = workers.enter_context(subprocess.Popen(words, stdin=subprocess.DEVNULL))
        workers.callback(process.terminate)
    client.wait_for_workers(4, timeout=120)
    beside_data.install(client, place, patience_s=60, hints=hints == "hints")
    gate, big = client.submit(opened), str(place / "big")
    found = [client.submit(read, str(place / f"own{n}"), big, gate) for n in range(4)]
    known = cluster.scheduler.tasks
    while [known[one.key].state for one in found if one.key in known] != ["waiting"] * 4:
        time.sleep(0.01)
    Event("go").set()
    assert client.gather(found) == [5_000_000] * 4
    print([told for _, told in client.get_events(beside_data.HINT_EVENTS)])
"""


@pytest.mark.parametrize("hints", ["hints", "none"])
def test_dask_has_tasks_take_from_each_other_what_many_read(
    hints: str, hosts: Hosts, job: Path, tmp_path: Path
) -> None:
    for number, mount in enumerate(hosts.store.mounts):
        (mount / job.name / f"own{number}").write_bytes(os.urandom(3_000_000))
    (hosts.store.mounts[0] / job.name / "big").write_bytes(os.urandom(2_000_000))
    script = tmp_path / "shared.py"
    script.write_text(SHARED)
    before = hosts.spread_files()
    said = hosts.python("n1", script, hosts.mount / job.name, f"{hosts.shell}", ADDRESS, hints)
    is_spread = hints == "hints"
    assert hints_on(job / "big") == ({"pattern": "broadcast"} if is_spread else {}), said
    assert (hosts.spread_files() > before) == is_spread, said
    assert ("4 tasks name it" in said) == is_spread, said


@pytest.mark.parametrize("options", [[], ["--intarsia-patience", "60"]], ids=["local", "delayed"])
def test_snakemake_runs_every_job_where_its_input_lies_and_passes_hints_on(
    options: list[str], hosts: Hosts, job: Path
) -> None:
    make_parts(hosts, job, 2)
    run_example(hosts, job, "snakemake", *options)
    assert local_tasks(job) == 4
    assert os.getxattr(job / "parts/0.txt", "user.intarsia.pattern") == b"sequential"


def test_snakemake_with_a_policy_that_knows_no_data_does_not(hosts: Hosts, job: Path) -> None:
    """The first two jobs begin on the first two hosts."""
    make_parts(hosts, job, 2)
    run_example(hosts, job, "snakemake", "--intarsia-policy", "blind")
    assert local_tasks(job) < 4


#: Of four tiles that are made at once each pair is read together.
PAIRS = """
rule all:
    input: "pair-{first}", "pair-{second}"
rule pair:
    input: "tile-{one}", "tile-{other}"
    output: "pair-{{pair}}"
    shell: "cat {{input}} > {{output}}"
rule tile:
    output: "tile-{{tile}}"
    shell:
        # None ends before all have begun.
        "touch began-{{wildcards.tile}}; head -c 2000000 /dev/urandom > {{output}}; "
        "timeout 60 sh -c 'until [ $(ls began-* | wc -l) = 4 ]; do sleep 0.1; done'"
"""


@pytest.mark.parametrize(
    ("pairs", "one", "other"), [("ab", "{pair}0", "{pair}1"), ("01", "a{pair}", "b{pair}")]
)
def test_snakemake_makes_on_one_host_what_is_read_together(
    pairs: str, one: str, other: str, hosts: Hosts, job: Path, tmp_path: Path
) -> None:
    """Both ways to pair them: whoever deals tiles out in turn parts the pairs of one of them."""
    text = PAIRS.format(first=pairs[0], second=pairs[1], one=one, other=other)
    (tmp_path / "Snakefile").write_text(text)
    options = ["--snakefile", str(tmp_path / "Snakefile"), "--intarsia-hosts", "n1,n2"]
    run_example(hosts, job, "snakemake", *options, "--intarsia-cores", "2")
    for pair in pairs:
        tiles = [job / f"tile-{tile.format(pair=pair)}" for tile in (one, other)]
        assert len({host_of_file(tile) for tile in tiles}) == 1


#: A file that many jobs read.
FAN = """
rule all:
    input: expand("sum-{n}", n=range(READERS))
rule sum:
    input: FLAG("big")
    output: "sum-{n}"
    shell: "cksum < {input} > {output}"
rule big:
    output: "big"
    shell: "head -c 2000000 /dev/urandom > {output}"
"""
PLAIN, MULTI = "(lambda file: file)", "access.multi"


@pytest.mark.parametrize(
    ("hints", "flag", "readers", "is_spread"),
    [
        ("derived", PLAIN, 4, True),
        ("flags", MULTI, 2, True),
        ("none", MULTI, 4, False),
    ],
)
def test_snakemake_has_jobs_take_from_each_other_what_many_read(
    hints: str, flag: str, readers: int, is_spread: bool, hosts: Hosts, job: Path, tmp_path: Path
) -> None:
    text = FAN.replace("FLAG", flag).replace("READERS", str(readers))
    (tmp_path / "Snakefile").write_text(text)
    before = hosts.spread_files()
    options = ["--snakefile", str(tmp_path / "Snakefile"), "--intarsia-policy", "blind"]
    said = run_example(hosts, job, "snakemake", *options, "--intarsia-hints", hints)
    found = hints_on(job / "big")
    assert found == ({"pattern": "broadcast"} if is_spread else {}), said
    assert (hosts.spread_files() > before) == is_spread, said
    why = "Hints: big: big* -> sum: pattern=broadcast: tasks on up to 4 hosts read it."
    assert (why in said) == (hints == "derived" and is_spread), said


#: Parts that one job reads.
GATHER = """
rule total:
    input: expand("parts/{n}", n=range(6))
    output: "total"
    shell: "cat {input} | cksum > {output}"
rule part:
    output: "parts/{n}"
    shell: "head -c 2000000 /dev/urandom > {output}"
"""


def test_snakemake_makes_on_one_host_what_one_job_gathers(
    hosts: Hosts, job: Path, tmp_path: Path
) -> None:
    """Four jobs begin before anybody knows how large their files are."""
    (tmp_path / "Snakefile").write_text(GATHER)
    options = ["--snakefile", str(tmp_path / "Snakefile"), "--intarsia-policy", "blind"]
    said = run_example(hosts, job, "snakemake", *options)
    parts = [job / f"parts/{n}" for n in range(6)]
    tagged = [part for part in parts if hints_on(part)]
    assert len(tagged) == 2, said
    (group,) = {hints_on(part)["place"] for part in tagged}
    assert group.startswith("collocate:total-")
    assert len({host_of_file(part) for part in tagged}) == 1
    assert hints_on(job / "parts") == {}, "all of them are made"


def test_snakemake_goes_on_without_a_host_that_is_lost(hosts: Hosts, job: Path) -> None:
    """One of the two hosts of which the first jobs begin is none of the store."""
    make_parts(hosts, job, 2)
    options = ["--intarsia-policy", "blind", "--intarsia-hosts", "n9,n1"]
    assert "n9 does not answer" in run_example(hosts, job, "snakemake", *options)
    assert local_tasks(job) >= 2


@pytest.mark.parametrize("scheduler", ["intarsia", "greedy"])
def test_snakemake_lets_jobs_go_first_whose_host_is_free(
    scheduler: str, hosts: Hosts, job: Path
) -> None:
    """The largest files lie on one host, which Snakemake by itself would begin with."""
    make_parts(hosts, job, grow=PART_LINES)
    options = ["--scheduler", scheduler, "--jobs", "2", "--intarsia-patience", "0"]
    if scheduler == "intarsia":
        options += ["--scheduler-intarsia-hosts", NAMES]
    run_example(hosts, job, "snakemake", *options)
    assert (local_tasks(job) == 8) == (scheduler == "intarsia")


def test_parsl_moves_an_input_where_waiting_for_its_host_takes_longer(
    hosts: Hosts, job: Path, tmp_path: Path
) -> None:
    make_parts(hosts, job, 3)
    threads = {name: ThreadPoolExecutor(label=name, max_threads=1) for name in ("n1", "n3")}
    placed = PlacedExecutor(threads, link="10gbit", storage_access=[StoreStaging()])
    both_began = threading.Barrier(2)

    def held(_: File) -> None:
        both_began.wait(timeout=60)

    app = parsl.python_app(held, executors=["intarsia"])
    executors = [*threads.values(), placed]
    config = Config(executors=executors, run_dir=str(tmp_path), initialize_logging=False)
    with parsl.load(config):
        found = [app(File(f"intarsia://{job}/parts/{number}.txt")) for number in (0, 2)]
        for future in found:
            future.result()
    assert [host for host, _, _ in placed.placed] == ["n3", "n1"]


def test_parsl_runs_every_app_where_its_input_lies(hosts: Hosts, job: Path) -> None:
    make_parts(hosts, job)
    # A host has four processes, which take long to start: three hosts are enough.
    run_example(hosts, job, "parsl", "--patience", "60", "--hosts", "n1,n3,n4")
    assert local_tasks(job) == 8


@pytest.mark.parametrize(("policy", "expected"), [(None, ["n3", "n4"]), (blind, ["n1", "n2"])])
def test_parsl_hands_apps_to_the_executor_of_a_host_by_the_policy(
    policy: Policy | None, expected: list[str], hosts: Hosts, job: Path, tmp_path: Path
) -> None:
    """With threads in place of the workers of each host."""
    make_parts(hosts, job, 2)
    threads = {name: ThreadPoolExecutor(label=name) for name in NAMES.split(",")}
    placed = PlacedExecutor(threads, policy=policy, patience_s=60, storage_access=[StoreStaging()])
    both_began = threading.Barrier(2)

    def size_of(part: File) -> int:
        both_began.wait(timeout=60)
        return Path(part).stat().st_size

    size = parsl.python_app(size_of, executors=["intarsia"])
    executors = [*threads.values(), placed]
    config = Config(executors=executors, run_dir=str(tmp_path), initialize_logging=False)
    with parsl.load(config):
        parts = [job / "parts/0.txt", job / "parts/1.txt"]
        found = [size(File(f"intarsia://{part}")) for part in parts]
        assert [future.result() for future in found] == [part.stat().st_size for part in parts]
    assert [host for host, _, _ in placed.placed] == expected
    assert all((held == of) == (policy is None) for _, held, of in placed.placed)


#: Two apps that read a part each, begin, and wait for the word.
HELD = """
import sys, time
from pathlib import Path
import parsl
from intarsia.engines.parsl import placed_executors
from parsl import Config, File, python_app

place, shell = Path(sys.argv[1]), sys.argv[2]

@python_app(executors=["intarsia"])
def held(place, inputs=()):
    import time
    from pathlib import Path
    read = Path(inputs[0])
    (Path(place) / f"began-{read.name}").touch()
    while not (Path(place) / "go").exists():
        time.sleep(0.05)
    return read.stat().st_size

executors = placed_executors(
    ["n3", "n4"], address=sys.argv[3], shell=shell, patience_s=60, silent_s=3
)
with parsl.load(Config(executors=executors, run_dir=f"{place}/runs", retries=2)):
    parts = sorted((place / "parts").iterdir())
    found = [held(str(place), inputs=[File(f"intarsia://{part}")]) for part in parts]
    assert [one.result() for one in found] == [part.stat().st_size for part in parts]
print([host for host, _, _ in executors[-1].placed])
"""


def test_parsl_goes_on_after_the_workers_of_a_host_are_killed(
    hosts: Hosts, job: Path, tmp_path: Path
) -> None:
    make_parts(hosts, job, 2)
    script = tmp_path / "held.py"
    script.write_text(HELD)
    place = hosts.mount / job.name
    with ThreadPool(1) as pool:
        run = pool.submit(hosts.python, "n1", script, str(place), f"{hosts.shell}", ADDRESS)
        wait_until(lambda: run.done() or len(list(job.glob("began-*"))) == 2)
        workers = [one for one in process_iter(["cmdline"]) if is_pool_of("n4", job, one)]
        assert workers, run.result()
        for one in [child for pool in workers for child in pool.children(recursive=True)] + workers:
            one.kill()
        (job / "go").touch()
        said = run.result()
    assert "host n4 has no workers left\n['n3', 'n4', 'n" in said, said


def is_pool_of(host: str, job: Path, process: Process) -> bool:
    """Whether a process is the pool of workers that Parsl has on a host for a job."""
    words = " ".join(process.info["cmdline"] or [])
    return "process_worker_pool" in words and f"intarsia-{host}" in words and job.name in words


def test_locate_says_hosts_bytes_and_what_is_wrong(hosts: Hosts, job: Path) -> None:
    make_parts(hosts, job)
    (job / "small").write_text("beside its inode")
    paths = [job / "parts/0.txt", job / "parts/1.txt", job / "small", job, job / "none", ROOT]
    found = locate(paths)
    size = paths[0].stat().st_size
    assert found.files[0] == Located(str(paths[0]), size, {"n3": size})
    assert found.files[0].copies == 1
    assert found.files[2].is_everywhere
    assert found.bytes_by_host == {"n3": size, "n4": paths[1].stat().st_size}
    assert [file.problem for file in found.unknown] == [
        "is no regular file",
        "No such file or directory",
        "lies in no store",
    ]


def test_locate_knows_copies_and_the_chunks_of_striped_files(hosts: Hosts, job: Path) -> None:
    hints = {"copies": {"replicas": "2", "close": "safe"}, "striped": {"place": "stripe:2"}}
    hints["striped"]["chunk"] = "64KiB"
    for name, wanted in hints.items():
        (job / name).mkdir()
        for hint, value in wanted.items():
            os.setxattr(job / name, f"user.intarsia.{hint}", value.encode())
        (job / name / "file").write_bytes(bytes(200_000))
    copies, striped = locate([job / "copies/file", job / "striped/file"]).files
    assert copies.copies == 2
    assert list(copies.bytes_by_host.values()) == [200_000, 200_000]
    assert striped.copies == 0
    assert list(striped.bytes_by_host.values()) == [2 * 65_536, 200_000 - 2 * 65_536]
