"""A store for each test, in both modes of the mount, that always goes away again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from intarsia.store import Store, StoreError, find_binary, fuse_problem, is_mounted

MODES = ("passthrough", "write-back")
# Longer than any test takes; a hang of the store becomes an error of the test, not of the build.
TEST_LIMIT_S = 300

# On the disk, not in a memory file system: the store's tier and everything native lies here.
SCRATCH = Path(os.environ.get("INTARSIA_TEST_SCRATCH", "/var/tmp"))


def require(condition: bool, reason: str) -> None:
    """Skip a test that cannot run here, or fail it where every test must run."""
    if condition:
        return
    if os.environ.get("INTARSIA_TEST_REQUIRE_ALL") == "1":
        pytest.fail(f"INTARSIA_TEST_REQUIRE_ALL=1, but {reason}")
    pytest.skip(f"SKIPPED: {reason}")


class Bench:
    """Keeps one store per mode up from test to test, and starts a new one when it has died."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stores: dict[str, Store] = {}
        self._started = 0

    def store(self, mode: str) -> Store:
        """Return the running store of `mode`."""
        store = self._stores.get(mode)
        if store is None or not store.is_alive() or not is_mounted(store.mount):
            self._drop(mode)
            self._started += 1
            place = self._directory / f"{mode}-{self._started}"
            passthrough = mode == "passthrough"
            store = Store.up(place / "mount", place / "store", passthrough=passthrough)
            self._stores[mode] = store
        return store

    def close(self) -> list[str]:
        """Take all stores down and say what went wrong."""
        return [problem for mode in list(self._stores) for problem in self._drop(mode)]

    def _drop(self, mode: str) -> list[str]:
        store = self._stores.pop(mode, None)
        return take_down(store) if store else []


def take_down(store: Store) -> list[str]:
    """Take a store down by all means; return what went wrong on the way."""
    problems = []
    try:
        store.down()
    except StoreError as error:
        problems.append(str(error))
    problems += store.leftovers()
    if store.is_alive():
        with contextlib.suppress(ProcessLookupError):
            os.kill(store.pid, signal.SIGKILL)
    if is_mounted(store.mount):
        subprocess.run(["umount", "--lazy", store.mount], check=False, capture_output=True)
    return problems


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    """The stores of this test run."""
    problem = fuse_problem()
    require(problem is None, str(problem))
    try:
        find_binary()
    except StoreError as error:
        require(False, str(error))
    with tempfile.TemporaryDirectory(prefix="intarsia-test-", dir=SCRATCH) as directory:
        bench = Bench(Path(directory).resolve())
        try:
            yield bench
        finally:
            problems = bench.close()
        assert not problems, problems


@pytest.fixture(params=MODES)
def store(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Store]:
    """A running store in each mode."""
    store = bench.store(request.param)
    killer = threading.Timer(TEST_LIMIT_S, os.kill, (store.pid, signal.SIGKILL))
    # A call that hangs in the kernel cannot be interrupted from here, but it fails with the node.
    killer.start()
    yield store
    killer.cancel()


@pytest.fixture
def work(store: Store) -> Iterator[Path]:
    """A new directory in the mount, from which the test's files are removed again."""
    directory = Path(tempfile.mkdtemp(dir=store.mount))
    directory.chmod(0o755)
    yield directory
    subprocess.run(["rm", "-rf", directory], check=True, timeout=TEST_LIMIT_S)


@pytest.fixture
def native(bench: Bench) -> Iterator[Path]:
    """A new directory on the native file system."""
    with tempfile.TemporaryDirectory(prefix="native-", dir=SCRATCH) as directory:
        yield Path(directory).resolve()
