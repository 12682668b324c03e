"""Runs commands with a time limit and reads what processes cost from /proc."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class CommandFailed(Exception):
    """A command ended with an error or ran out of time."""


@dataclass
class Cost:
    """What a finished command took, with all processes it waited for."""

    wall_s: float
    cpu_s: float
    output: str


def run(command, cwd=None, env=None, limit_s=600):
    """Runs `command` to its end; kills it with its children when it passes `limit_s`."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        expired = threading.Event()
        timer = threading.Timer(limit_s, lambda: (expired.set(), kill_group(process.pid)))
        timer.start()
        try:
            # wait4 tells the resources of this one command, where RUSAGE_CHILDREN sums up all.
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            kill_group(process.pid)
            raise
        finally:
            timer.cancel()
        wall_s = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output, errors = read_all(out), read_all(err)
    shown = " ".join(map(str, command))
    if expired.is_set():
        raise CommandFailed(f"no end within {limit_s} s: {shown}")
    if process.returncode != 0:
        raise CommandFailed(
            f"exit {process.returncode}: {shown}: {(errors or output)[:300].strip()}"
        )
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, output)


def read_all(stream):
    stream.seek(0)
    return stream.read().decode(errors="replace")


def kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end(process, patience_s=10):
    """Asks a process that we started to stop, and insists when it does not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until(condition, what, limit_s=30, pause_s=0.001):
    """Waits for `condition`, and says what was missing when it never came."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise CommandFailed(f"no {what} within {limit_s} s")
        time.sleep(pause_s)


def pin(pids, cpu):
    """Keeps all threads of these processes on one processor; later threads inherit it."""
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {cpu})


def last_cpu():
    return max(os.sched_getaffinity(0))


def finish(pid, patience_s=10):
    """Waits for a process that is not our child to end, and ends it when it does not."""
    for action in (None, signal.SIGTERM, signal.SIGKILL):
        try:
            if action:
                os.kill(pid, action)
            wait_until(lambda: not is_running(pid), f"end of process {pid}", patience_s, 0.01)
            return
        except ProcessLookupError:
            return
        except CommandFailed:
            continue


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def cpu_s(pids):
    """User and system time so far; a process that is gone counts as zero."""
    return sum(ticks(pid) for pid in pids) / TICKS_PER_S


def ticks(pid):
    try:
        # The name in the second field may hold spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def fine_cpu_s(pids):
    """Time on a processor of all living threads, finer than ticks: for servers that do nothing."""
    total_ns = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total_ns += int(task.read_text().split()[0])
            except OSError:
                pass
    return total_ns / 1e9


def peak_bytes(pids):
    """The largest resident memory of each process since its start, added up."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    return total
