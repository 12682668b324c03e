#!/usr/bin/env python3
"""Counts the kernel requests that each kind of system call costs in a FUSE file system.

Each action runs on many files, and the counts are divided by their number: 1.00 is one request for
each file. What the kernel keeps in its caches shows as 0; requests that one action causes after it
ended (RELEASE, FORGET) are waited for.

example:
  bench/requests.py
  bench/requests.py --systems floor,intarsia --actions create,stat-cold --files 500
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import command_line
import processes
from systems import SYSTEMS, Absent

DEFAULT_SYSTEMS = "floor,floor-writeback,floor-lean,intarsia,intarsia-writeback"
CONTENT = b"x" * 4096
STABLE_READS = 3
STABLE_PAUSE_S = 0.05


def drop_names(folder):
    """Makes the kernel forget names and attributes, so that the next look asks the server."""
    processes.run(["sync", "-f", str(folder)])
    try:
        Path("/proc/sys/vm/drop_caches").write_text("2")
    except PermissionError:
        sys.exit("requests.py: cold actions need root, for /proc/sys/vm/drop_caches")


def create(folder, files):
    for file in files:
        file.write_bytes(CONTENT)


def read(folder, files):
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.read(descriptor, len(CONTENT))
        os.close(descriptor)


def stat(folder, files):
    for file in files:
        os.stat(file)


def append(folder, files):
    for file in files:
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, CONTENT)
        os.close(descriptor)


def copy(folder, files):
    for file in files:
        shutil.copyfile(file, file.with_suffix(".copy"))


def rename(folder, files):
    for file in files:
        file.rename(file.with_suffix(".renamed"))


def replace(folder, files):
    """What editors and git do: write beside, then rename over."""
    for file in files:
        draft = file.with_suffix(".draft")
        draft.write_bytes(CONTENT)
        draft.replace(file)


def unlink(folder, files):
    for file in files:
        file.unlink()


def mkdir(folder, files):
    for file in files:
        file.mkdir()


def chmod(folder, files):
    for file in files:
        file.chmod(0o600)


def missing(folder, files):
    for file in files:
        file.with_suffix(".absent").exists()


def listing(folder, files):
    if len(os.listdir(folder)) != len(files):
        raise processes.CommandFailed("the listing is not complete")


def long_listing(folder, files):
    processes.run(["ls", "-l", str(folder)])


# Name: what is done, whether the files exist before, whether the kernel's caches are dropped first.
ACTIONS = {
    "create": (create, False, False),
    "stat-after-create": (stat, True, False),
    "stat-cold": (stat, True, True),
    "stat-absent": (missing, True, False),
    "read": (read, True, False),
    "read-cold": (read, True, True),
    "append": (append, True, False),
    "copy": (copy, True, False),
    "chmod": (chmod, True, False),
    "rename": (rename, True, False),
    "replace": (replace, True, False),
    "unlink": (unlink, True, False),
    "unlink-cold": (unlink, True, True),
    "mkdir": (mkdir, False, False),
    "readdir": (listing, True, False),
    "readdir-cold": (listing, True, True),
    "ls-l-cold": (long_listing, True, True),
}


def settled(system):
    """The counts once they stopped growing: closes and forgets arrive late."""
    last, equal = system.requests(), 0
    deadline = time.monotonic() + 10
    while equal < STABLE_READS and time.monotonic() < deadline:
        time.sleep(STABLE_PAUSE_S)
        now = system.requests()
        equal = equal + 1 if now == last else 0
        last = now
    return last


def count(system, name, action, exists, cold, number):
    """Requests by kind for each file of one action."""
    folder = system.mount / name
    folder.mkdir()
    files = [folder / f"file-{index:05d}" for index in range(number)]
    if exists:
        create(folder, files)
    if cold:
        drop_names(folder)
        folder.stat()
    before = settled(system)
    action(folder, files)
    after = settled(system)
    shutil.rmtree(folder)
    kinds = {kind: after[kind] - before.get(kind, 0) for kind in after}
    return {kind: difference / number for kind, difference in kinds.items() if difference}


def measure(name, actions, work, number):
    """All actions in one freshly started system."""
    system = SYSTEMS[name](name, work)
    system.check()
    try:
        system.start()
        print(f"\n{name} {system.mode()}", flush=True)
        found = {}
        for action in actions:
            found[action] = count(system, action, *ACTIONS[action], number)
            print(
                f"  {action:<18} {sum(found[action].values()):7.2f}   {detail(found[action])}",
                flush=True,
            )
        return found
    finally:
        system.stop()


def detail(kinds):
    ordered = sorted(kinds.items(), key=lambda item: -item[1])
    return "  ".join(f"{kind} {share:.2f}" for kind, share in ordered if share >= 0.005)


def parse_arguments():
    parser = command_line.parser(__doc__)
    parser.add_argument("--systems", default=DEFAULT_SYSTEMS, help="default: %(default)s")
    parser.add_argument("--actions", default=",".join(ACTIONS), help="default: all of %(default)s")
    parser.add_argument(
        "--files", type=int, default=1000, help="files of each action (default 1000)"
    )
    parser.add_argument(
        "--work", default="/var/tmp", help="folder for stores (default %(default)s)"
    )
    parser.add_argument("--out", help="also write the counts to this JSON file")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    actions = arguments.actions.split(",")
    unknown = [action for action in actions if action not in ACTIONS]
    if unknown:
        sys.exit(f"requests.py: no action {unknown[0]!r}; there are {', '.join(ACTIONS)}")
    results, failed = {}, False
    print("requests for each file: in all, then by kind")
    with tempfile.TemporaryDirectory(prefix="intarsia-requests-", dir=arguments.work) as work:
        for name in arguments.systems.split(","):
            if not hasattr(SYSTEMS.get(name), "requests") and name not in DEFAULT_SYSTEMS.split(
                ","
            ):
                sys.exit(f"requests.py: {name!r} does not count requests")
            try:
                results[name] = measure(name, actions, work, arguments.files)
            except Absent as reason:
                print(f"\nleft out: {reason}")
            except (processes.CommandFailed, OSError) as failure:
                print(f"\nFAILED {name}: {failure}")
                failed = True
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
