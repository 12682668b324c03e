"""Cleans and packs the files of a directory `parts` with Parsl, a worker on each host of a store.

python parsl_pipeline.py /mnt/work --hosts node01,node02 --address 10.0.0.1
"""

import argparse
from pathlib import Path

import parsl
from intarsia.engines.parsl import placed_executors
from intarsia.engines.shell import SSH
from intarsia.schedule import blind
from parsl import Config, File, python_app


@python_app(executors=["intarsia"])
def clean(inputs=(), outputs=()):
    """Leave comments out."""
    with open(inputs[0]) as source, open(outputs[0], "w") as target:
        target.writelines(line for line in source if not line.startswith("#"))


@python_app(executors=["intarsia"])
def pack(inputs=(), outputs=()):
    """Compress what `clean` wrote."""
    import gzip

    with open(inputs[0], "rb") as source, open(outputs[0], "wb") as target:
        target.write(gzip.compress(source.read(), 1))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("directory", type=Path, help="directory in a store, with `parts` in it")
parser.add_argument("--hosts", required=True, help="hosts for workers, with commas between")
parser.add_argument("--address", required=True, help="address of this host, for the workers")
parser.add_argument("--shell", default=SSH, help="how commands are run on {host}")
parser.add_argument("--link", default="1gbit", help="rate of the hosts' links (%(default)s)")
parser.add_argument("--patience", type=float, help="seconds to wait for a host, whatever it costs")
parser.add_argument("--blind", action="store_true", help="place tasks without regard to data")
arguments = parser.parse_args()

directory = arguments.directory
for stage in ("clean", "packed"):
    (directory / stage).mkdir(exist_ok=True)

executors = placed_executors(
    arguments.hosts.split(","),
    address=arguments.address,
    shell=arguments.shell,
    patience_s=arguments.patience,
    link=arguments.link,
    policy=blind if arguments.blind else None,
)
config = Config(executors=executors, run_dir=f"{directory}/runinfo", strategy_period=0.5, retries=2)
with parsl.load(config):
    done = []
    for part in sorted((directory / "parts").iterdir()):
        cleaned = File(f"intarsia://{directory}/clean/{part.name}")
        packed = File(f"intarsia://{directory}/packed/{part.name}.gz")
        first = clean(inputs=[File(f"intarsia://{part}")], outputs=[cleaned])
        done.append(pack(inputs=[first.outputs[0]], outputs=[packed]))
    for future in done:
        future.result()

placed = executors[-1].placed
local_bytes = sum(held for _, held, _ in placed)
print(f"{len(placed)} tasks were placed, with {local_bytes} of their input bytes local")
