"""Three unlike directories to try things out on: memory, the disk, and a slow ext4 (throttled).

The slow one is an image on the disk behind nbdkit's filters `delay` and `rate`, as a file by
nbdfuse, as a loop device, with ext4 on it. It needs root, nbdkit, nbdfuse and mkfs.ext4 (Debian:
nbdkit, libnbd-bin, e2fsprogs).
"""

import contextlib
import shutil
import subprocess
import time

MIB = 1 << 20
NEEDED = ("nbdkit", "nbdfuse", "losetup", "mkfs.ext4", "mount", "fio")
START_LIMIT_S = 10


class Missing(Exception):
    """Something that is not installed or not allowed here."""


def require():
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        raise Missing(f"{', '.join(missing)} not in the PATH")


@contextlib.contextmanager
def three_stores(work, *, delay_ms, rate_mb, room_mib):
    """Make `ram`, `disk` and `slow` below `work`; gives their paths, and leaves nothing behind."""
    require()
    with contextlib.ExitStack() as stack:
        disk, ram, slow = work / "disk", work / "ram", work / "slow"
        for path in (disk, ram, slow):
            path.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={room_mib}m", "tmpfs", ram)
        stack.callback(run, "umount", ram)
        stack.enter_context(throttled_ext4(work, slow, delay_ms, rate_mb, room_mib))
        yield {"ram": ram, "disk": disk, "slow": slow}


@contextlib.contextmanager
def throttled_ext4(work, mount, delay_ms, rate_mb, room_mib):
    image, socket, served = work / "image", work / "nbd", work / "served"
    with open(image, "wb") as file:
        file.truncate(room_mib * MIB)
    served.touch()
    with contextlib.ExitStack() as stack:
        stack.enter_context(running(
            "nbdkit", "--foreground", f"--unix={socket}", "--filter=delay", "--filter=rate",
            "file", image, f"rdelay={delay_ms}ms", f"wdelay={delay_ms}ms",
            f"rate={rate_mb * 8}M", "burstiness=0.1",
        ))
        wait_for(socket.exists, "nbdkit")
        stack.enter_context(running("nbdfuse", served, "--unix", socket))
        # The loop device lets go of its file some time after it was told to.
        stack.callback(wait_for, lambda: is_unmounted(served), "the end of the loop device")
        wait_for(lambda: served.stat().st_size == room_mib * MIB, "nbdfuse")
        device = run("losetup", "--find", "--show", "--direct-io=on", served).strip()
        stack.callback(run, "losetup", "--detach", device)
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=1,nodiscard", device)
        run("mount", device, mount)
        stack.callback(run, "umount", mount)
        yield


@contextlib.contextmanager
def running(*words):
    # In a session of its own Ctrl-C does not end it before what is mounted on it is unmounted.
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"{words[0]}: {done.stderr.strip()}")
    return done.stdout


def is_unmounted(path):
    if not path.is_mount():
        return True
    return subprocess.run(["fusermount3", "-u", path], stderr=subprocess.DEVNULL).returncode == 0


def wait_for(condition, what):
    limit = time.monotonic() + START_LIMIT_S
    while not condition():
        if time.monotonic() > limit:
            raise Missing(f"{what} did not come within {START_LIMIT_S} s")
        time.sleep(0.05)
