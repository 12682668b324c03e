"""Cleans and packs the files of a directory `parts` with Dask, a worker on each host of a store.

python dask_pipeline.py /mnt/work --hosts node01,node02 --address 10.0.0.1
"""

import argparse
import gzip
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from distributed import Client, LocalCluster
from intarsia.engines import dask as beside_data
from intarsia.engines.shell import SSH, on_host


def clean(source: str, target: str) -> None:
    """Leave comments out."""
    lines = Path(source).read_text().splitlines(keepends=True)
    Path(target).write_text("".join(line for line in lines if not line.startswith("#")))


def pack(source: str, target: str, after: None) -> None:
    """Compress what `clean` wrote."""
    Path(target).write_bytes(gzip.compress(Path(source).read_bytes(), 1))


def run(client: Client, directory: Path) -> None:
    """Do both steps for every part."""
    done = []
    for part in sorted((directory / "parts").iterdir()):
        cleaned = directory / "clean" / part.name
        packed = directory / "packed" / f"{part.name}.gz"
        after = client.submit(clean, str(part), str(cleaned), retries=2)
        done.append(client.submit(pack, str(cleaned), str(packed), after, retries=2))
    client.gather(done)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("directory", type=Path, help="directory in a store, with `parts` in it")
parser.add_argument("--hosts", required=True, help="hosts for workers, with commas between")
parser.add_argument("--address", required=True, help="address of this host, for the workers")
parser.add_argument("--shell", default=SSH, help="how commands are run on {host}")
parser.add_argument("--patience", type=float, default=3.0, help="seconds to wait for a host")
parser.add_argument("--blind", action="store_true", help="leave the choice of hosts to Dask")
arguments = parser.parse_args()

directory = arguments.directory
for stage in ("clean", "packed"):
    (directory / stage).mkdir(exist_ok=True)

# First the client goes, then the workers: one that ends with results that a client still wants has
# others make them again.
with (
    LocalCluster(n_workers=0, host=arguments.address, dashboard_address=None) as cluster,
    ExitStack() as workers,
    Client(cluster) as client,
):
    worker = f"{sys.executable} -m distributed.cli.dask_worker {cluster.scheduler_address}"
    hosts = arguments.hosts.split(",")
    for host in hosts:
        command = f"exec {worker} --name {host} --nthreads 1 --no-nanny --no-dashboard"
        words = on_host(arguments.shell, host, command, Path("/tmp"))
        process = workers.enter_context(subprocess.Popen(words, stdin=subprocess.DEVNULL))
        workers.callback(process.terminate)
    client.wait_for_workers(len(hosts), timeout=60)

    if not arguments.blind:
        beside_data.install(client, directory, patience_s=arguments.patience)

    run(client, directory)
    placed = [told for _, told in client.get_events(beside_data.EVENTS)]
    local_bytes = sum(told["local_bytes"] for told in placed)
    print(f"{len(placed)} tasks were placed, with {local_bytes} of their input bytes local")
