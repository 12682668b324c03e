#!/usr/bin/env python3
"""Compares a store over hosts of a lab with GlusterFS and MooseFS on the same hosts, in one run.

The systems take turns, each in a lab of its own with its data in memory (`--work`). CPU seconds are
those of every process in the lab's network namespaces. Times say what one client meets when all
hosts share this machine. `native` is a directory of this machine that all hosts share: the limit.

example:
  apt-get install glusterfs-server moosefs-master moosefs-chunkserver moosefs-client
  bench/lab_peers.py --systems intarsia,moosefs --files 1000 --repeat 1       a first look
  bench/lab_peers.py --repeat 5 --link 1gbit
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import time

import cluster
import labs
from labs import Absent, Lab, is_mounted


class MooseFs(Lab):
    """One master, a chunk server on every host, one copy of everything."""

    needs = {
        "mfsmaster": "moosefs-master",
        "mfschunkserver": "moosefs-chunkserver",
        "mfsmount": "moosefs-client",
    }

    def servers(self):
        """The hosts with chunk servers."""
        return self.numbers()

    def start(self):
        """Master, chunk servers, mounts."""
        master = self.addresses[1]
        data = self.dir / "master"
        data.mkdir()
        shutil.copy("/var/lib/mfs/metadata.mfs.empty", data / "metadata.mfs")
        (data / "exports.cfg").write_text("* / rw,alldirs,maproot=0:0\n* . rw\n")
        user = "WORKING_USER = root\nWORKING_GROUP = root\nNICE_LEVEL = 0\n"
        (data / "master.cfg").write_text(f"{user}DATA_PATH = {data}\nEXPORTS_FILENAME = {data}/exports.cfg\n")
        self.background(1, "mfsmaster", "-f", "-c", data / "master.cfg", "start")
        self.wait("a master", lambda: self.listens(1, 9421))
        for n in self.servers():
            chunks = self.dir / f"chunks{n}"
            (chunks / "disk").mkdir(parents=True)
            (chunks / "hdd.cfg").write_text(f"{chunks}/disk\n")
            (chunks / "chunk.cfg").write_text(
                f"{user}DATA_PATH = {chunks}\nHDD_CONF_FILENAME = {chunks}/hdd.cfg\n"
                f"MASTER_HOST = {master}\nMASTER_RECONNECTION_DELAY = 1\n"
            )
            self.background(n, "mfschunkserver", "-f", "-c", chunks / "chunk.cfg", "start")
        for n in self.servers():
            self.wait(f"chunk server {n}", lambda n=n: self.listens(n, 9422))
        for n in self.numbers():
            self.mount(n).mkdir()
            self.background(n, "mfsmount", "-f", "-H", master, self.mount(n))
            self.wait(f"mount {n}", lambda n=n: is_mounted(self.mount(n)))
        self.wait("space", lambda: os.statvfs(self.mount(1)).f_bfree > 0)

    def listens(self, host, port):
        """Whether somebody listens on a port of a host."""
        return f":{port:04X} " in self.on(host, "cat", "/proc/net/tcp")


class Central(MooseFs):
    """All bytes and names on the first host: one server for everybody."""

    def servers(self):
        """The first alone."""
        return [1]


class GlusterFs(Lab):
    """A volume over one brick a host; each file on one of them."""

    needs = {
        "glusterd": "glusterfs-server",
        "gluster": "glusterfs-cli",
        "glusterfs": "glusterfs-client",
    }
    layout = ()

    def start(self):
        """Management daemons, the volume, mounts. Each daemon has `/var/lib/glusterd` to itself."""
        for n in self.numbers():
            home = self.dir / f"gluster{n}"
            for name in ("lib", "run", "log", "brick"):
                (home / name).mkdir(parents=True)
            (home / "glusterd.vol").write_text(
                "volume management\n type mgmt/glusterd\n"
                " option working-directory /var/lib/glusterd\n option transport-type socket\n"
                f" option glusterd-sockfile {home}/glusterd.sock\n"
                " option transport.socket.listen-port 24007\n option ping-timeout 0\n"
                " option transport.address-family inet\n option transport.socket.keepalive-time 10\n"
                " option transport.socket.keepalive-interval 2\n option transport.tcp-user-timeout 0\n"
                f" option transport.socket.bind-address {self.addresses[n]}\nend-volume\n"
            )
            # No name server can be reached from a lab.
            (home / "hosts").write_text(
                "127.0.0.1 localhost\n" + "".join(f"{self.addresses[m]} n{m}\n" for m in self.numbers())
            )
            (home / "resolv.conf").touch()
            binds = " && ".join(
                f"mount --bind {home}/{name} {place}"
                for name, place in (
                    ("lib", "/var/lib/glusterd"),
                    ("run", "/var/run/gluster"),
                    ("log", "/var/log/glusterfs"),
                    ("hosts", "/etc/hosts"),
                    ("resolv.conf", "/etc/resolv.conf"),
                )
            )
            daemon = f"exec glusterd -N -f {home}/glusterd.vol -p {home}/glusterd.pid"
            self.background(n, "unshare", "-m", "sh", "-c", f"{binds} && {daemon}")
        for n in self.numbers():
            self.wait(f"glusterd {n}", lambda n=n: self.answers(n))
        for n in self.numbers()[1:]:
            self.gluster("peer", "probe", self.addresses[n])
        for n in self.numbers():
            self.wait(f"the peers of {n}", lambda n=n: self.count_peers(n) == self.hosts - 1)
        bricks = [f"{self.addresses[n]}:{self.dir}/gluster{n}/brick" for n in self.numbers()]
        self.gluster("volume", "create", "v", *self.layout, *bricks, "force")
        self.gluster("volume", "start", "v")
        for n in self.numbers():
            self.mount(n).mkdir()
            server = f"--volfile-server={self.addresses[n]}"
            log = f"--log-file={self.dir}/gluster{n}/mount.log"
            self.on(n, "glusterfs", server, "--volfile-id=v", log, self.mount(n))
            self.wait(f"mount {n}", lambda n=n: is_mounted(self.mount(n)))

    def gluster(self, *words, host=1, check=True):
        """Tell the daemon of a host."""
        socket = f"--glusterd-sock={self.dir}/gluster{host}/glusterd.sock"
        return self.on(host, "gluster", "--mode=script", socket, *words, check=check)

    def answers(self, host):
        """Whether the daemon of a host answers."""
        return "localhost" in self.gluster("pool", "list", host=host, check=False)

    def count_peers(self, host):
        """Peers of a host that are joined and connected."""
        said = self.gluster("peer", "status", host=host, check=False)
        return said.count("Peer in Cluster (Connected)")


class GlusterReplicated(GlusterFs):
    """Two copies of everything."""

    layout = ("replica", "2")


class GlusterDispersed(GlusterFs):
    """Erasure-coded, any one brick may be lost."""

    @property
    def layout(self):
        """All bricks in one set."""
        return ("disperse", str(self.hosts), "redundancy", "1")


class Strict(labs.Intarsia):
    """Ours, asking the metadata servers for every name."""

    options = ("--no-directory-leases",)


SYSTEMS = {
    "intarsia": labs.Intarsia,
    "intarsia-strict": Strict,
    "native": labs.Native,
    "glusterfs": GlusterFs,
    "glusterfs-replica2": GlusterReplicated,
    "glusterfs-disperse": GlusterDispersed,
    "moosefs": MooseFs,
}


def main():
    """Measure and print."""
    usage, _, examples = __doc__.partition("example:")
    parser = argparse.ArgumentParser(
        description=usage,
        epilog="example:" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="of %(default)s")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--link", help="rate of each link, such as 1gbit (default: unshaped)")
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--mib", type=int, default=128, help="size of the large file")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--idle", type=int, default=5, help="seconds of idleness to measure")
    parser.add_argument("--work", default="/dev/shm", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    labs.end_on_signals()
    chosen = arguments.systems.split(",")
    if unknown := set(chosen) - SYSTEMS.keys():
        parser.error(f"unknown system {', '.join(unknown)}; there are {', '.join(SYSTEMS)}")
    for name in list(chosen):
        try:
            SYSTEMS[name].check(arguments.program)
        except Absent as absent:
            print(f"lab_peers.py: {name} is left out: {absent}", file=sys.stderr)
            chosen.remove(name)
    found = {name: [] for name in chosen}
    loads = []
    for number in range(arguments.repeat):
        # Whoever came first would always meet the quieter machine.
        first = number % max(1, len(chosen))
        for name in chosen[first:] + chosen[:first]:
            print(f"round {number + 1} of {arguments.repeat}: {name}", file=sys.stderr)
            loads.append(os.getloadavg()[0])
            found[name].append(measure(SYSTEMS[name], number, arguments))
    if arguments.json:
        said = {"arguments": vars(arguments), "loads": loads, "rounds": found}
        print(json.dumps(said, indent=1))
    elif chosen:
        show(found, loads, arguments)


def measure(kind, number, arguments):
    """One round of one system."""
    with kind(arguments.program, arguments.hosts, arguments.link, arguments.work) as system:
        row = cluster.small_and_large(system, number, arguments.files, arguments.mib)
        cpu = system.cpu_s()
        time.sleep(arguments.idle)
        idle = (system.cpu_s() - cpu) / arguments.idle * 100
        row["up on all hosts [s]"] = {"per_s": system.up_s}
        row["idle [% of a core]"] = {"per_s": idle}
        return row


def show(found, loads, arguments):
    """A table a measurement: median, spread, CPU of the servers, ratio of the first system to each."""
    load = f"load {min(loads):.1f} to {max(loads):.1f}"
    print(f"{arguments.hosts} hosts of one machine, n = {arguments.repeat}, {load}")
    first = next(iter(found))
    for what in found[first][0]:
        print(f"\n{what}")
        ours = statistics.median(row[what]["per_s"] for row in found[first])
        for name, rows in found.items():
            values = [row[what]["per_s"] for row in rows]
            median = statistics.median(values)
            cpu = [row[what]["cpu_ms"] for row in rows if "cpu_ms" in row[what]]
            said = f"   CPU {statistics.median(cpu):.3f} ms" if cpu else ""
            ratio = f"{ours / median:6.2f}" if median else "     -"
            spread = f"{min(values):,.1f} - {max(values):,.1f}"
            print(f"  {name:20} {median:>10,.1f}   ({spread})   {first}/it {ratio}{said}")


if __name__ == "__main__":
    main()
