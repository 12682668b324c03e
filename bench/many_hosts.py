#!/usr/bin/env python3
"""Measures what a store over many hosts costs before anybody uses it: the time until all are up, and idle processor time.

Every host is a network namespace of this machine, with a node and a mount of its own; so all of them start on the same
processors, and what they take together is what is shown. After the idle time a file written on one host is read on all.

example:
  bench/many_hosts.py --hosts 4,16,32,64
  bench/many_hosts.py --hosts 32 --meta-hosts 32        servers on every host, as before there was a choice
"""

import json
import statistics
import time
from pathlib import Path

import command_line
import labs

SERVERS = ("redis-server", "valkey-server")


def measure(program, hosts, meta_hosts, idle_s):
    """One store: seconds until it is up, and shares of a core when idle, by program."""
    options = ["--meta-hosts", str(meta_hosts)] if meta_hosts else []
    with labs.Intarsia(program, hosts, options=options) as lab:
        time.sleep(5)
        before, started = lab.cpu_by_program_s(), time.perf_counter()
        time.sleep(idle_s)
        elapsed_s = time.perf_counter() - started
        after = lab.cpu_by_program_s()
        idle = {name: (after[name] - before.get(name, 0)) / elapsed_s for name in after}
        smoke_s = smoke(lab)
        servers = lab.status(1)["metadata_servers"]["holdings"]
        return {
            "hosts": hosts,
            "meta_hosts": len(servers),
            "up_s": lab.up_s,
            "idle_share_by_program": idle,
            "idle_share": sum(idle.values()),
            "smoke_s": smoke_s,
            "memory_bytes": lab.memory_bytes(),
        }


def smoke(lab):
    """Seconds to write a file of each kind on one host and read it on all."""
    started = time.perf_counter()
    for name, content in {"small": b"s" * 1000, "large": b"l" * (1 << 20)}.items():
        (lab.mount(1) / name).write_bytes(content)
        for host in lab.numbers():
            if (lab.mount(host) / name).read_bytes() != content:
                raise SystemExit(f"{name} is another file on host {host}")
        (lab.mount(lab.hosts) / name).unlink()
    return time.perf_counter() - started


def main():
    parser = command_line.parser(__doc__)
    parser.add_argument("--hosts", default="4,16,32,64", help="numbers of hosts (default 4,16,32,64)")
    parser.add_argument("--meta-hosts", type=int, help="hosts with metadata servers (default: the program's)")
    parser.add_argument("--idle", type=float, default=20, help="seconds of idleness that are measured (default 20)")
    parser.add_argument("--repeat", type=int, default=1, help="stores of each size (default 1)")
    parser.add_argument("--program", type=Path, default=labs.PROGRAM)
    parser.add_argument("--out", type=Path, help="write all samples here, as JSON")
    arguments = parser.parse_args()
    labs.end_on_signals()
    samples = []
    print("hosts  servers on    up s   idle %   nodes  servers  smoke s")
    for hosts in map(int, arguments.hosts.split(",")):
        some = [
            measure(arguments.program, hosts, arguments.meta_hosts, arguments.idle) for _ in range(arguments.repeat)
        ]
        samples += some

        def middle(of, some=some):
            return statistics.median(map(of, some))

        def share(is_server):
            return lambda s: 100 * sum(v for k, v in s["idle_share_by_program"].items() if (k in SERVERS) == is_server)

        print(
            f"{hosts:5} {some[0]['meta_hosts']:11} {middle(lambda s: s['up_s']):7.2f} "
            f"{middle(lambda s: 100 * s['idle_share']):8.2f} {middle(share(False)):7.2f} "
            f"{middle(share(True)):8.2f} {middle(lambda s: s['smoke_s']):8.2f}",
            flush=True,
        )
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(samples, indent=1) + "\n")


if __name__ == "__main__":
    main()
