"""The picture of `intarsia run` on a terminal: what it shows, and that nothing of it is left."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyte
import pytest
from conftest import Bench
from intarsia.locate import host_of
from runs import ENVIRONMENT, assert_gone, wait_until

CTRL_C, CTRL_Z, ENTER = b"\x03", b"\x1a", b"\n"
# A shell that has a command which was stopped go on after Enter.
SHELL = """set -m
"$@"; code=$?
while [ $code = 148 ]; do read -rs; fg > /dev/null; code=$?; done
exit $code
"""
STOPPED = '[1]+  Stopped                 "$@"'

RUN = [sys.executable, "-m", "intarsia.run", "w.yaml", "--slots", "4"]
HIDDEN = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
PLAIN = {name: value for name, value in ENVIRONMENT.items() if name not in HIDDEN}
PLAIN["TERM"] = "xterm-256color"


class RunOnTerminal:
    """A run whose terminal is kept as a person sees it."""

    def __init__(self, directory: Path, **environment: str) -> None:
        self.screen = pyte.Screen(90, 24)
        #: All that was written.
        self.written = b""
        self._stream = pyte.ByteStream(self.screen)
        self._lock = threading.Lock()
        words = ["bash", "-c", SHELL, "sh", *RUN]
        self._terminal, theirs = pty.openpty()
        self.resize(90, 24)
        self.process = subprocess.Popen(
            words,
            cwd=directory,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=PLAIN | environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        # It fails when the last process that has the terminal open is gone.
        with contextlib.suppress(OSError):
            while text := os.read(self._terminal, 1 << 16):
                with self._lock:
                    self.written += text
                    self._stream.feed(text)

    def resize(self, columns: int, lines: int, *, wraps: bool = False) -> None:
        """Have the terminal be of another size; what does not fit is cut off, or wrapped."""
        with self._lock:
            shown = [line.rstrip() for line in self.screen.display[: self.screen.cursor.y + 1]]
            self.screen.resize(lines, columns)
            if wraps:
                self.screen.reset()
                parts = [textwrap.wrap(line, columns) or [""] for line in shown]
                self._stream.feed("\r\n".join(itertools.chain(*parts)).encode())
            size = struct.pack("HHHH", lines, columns, 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def press(self, key: bytes) -> None:
        os.write(self._terminal, key)

    def shows(self, *texts: str) -> bool:
        """Whether there is now a line that begins with each of the texts, and just one."""
        lines = self.lines()
        return all(sum(line.startswith(text) for line in lines) == 1 for text in texts)

    def lines(self) -> list[str]:
        with self._lock:
            return [line.rstrip() for line in self.screen.display]

    def wait_until(self, what: Callable[[], bool]) -> None:
        try:
            wait_until(lambda: what() or self.process.poll() is not None)
            assert self.process.poll() is None or what()
        except AssertionError as error:
            raise AssertionError("\n".join(self.lines())) from error

    def end(self, code: int) -> list[str]:
        """Wait for its end; return the lines that are left, which the cursor is below."""
        assert self.process.wait(60) == code, self.lines()
        self._reader.join(60)
        cursor, lines = self.screen.cursor, self.lines()
        assert not cursor.hidden
        assert (cursor.x, "".join(lines[cursor.y :])) == (0, ""), lines
        left = lines[: cursor.y]
        # The shell's word that it was stopped has an empty line above.
        assert left.count("") == left.count(STOPPED), lines
        return [line for line in left if line not in ("", STOPPED)]

    @property
    def run(self) -> psutil.Process:
        """The process of the run itself."""
        return psutil.Process(self.process.pid).children()[0]

    def kill(self) -> None:
        if self.process.poll() is None:
            run = self.run
            started = run.children(recursive=True)
            run.kill()
            assert_gone([run, *started])
        self.process.wait(60)

    def close(self) -> None:
        self.kill()
        self._reader.join(60)
        os.close(self._terminal)


@pytest.fixture
def work(bench: Bench, tmp_path: Path) -> Iterator[Path]:
    """A new directory in a store's mount."""
    directory = bench.store("passthrough").mount / tmp_path.name
    directory.mkdir()
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def begun(work: Path, tmp_path: Path) -> Iterator[Callable[..., RunOnTerminal]]:
    """Begins a run of a task that is done, two that wait at a gate, and one that needs all."""
    (work / "text").write_text("one two\n" * 250_000)
    tasks: dict[str, dict[str, object]] = {
        "soon": {"command": "cp text soon", "inputs": ["text"], "outputs": ["soon"]}
    }
    gate = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; "
    for name in ("late-0", "late-1"):
        tasks[name] = {"command": f"{gate}cp soon {name}", "inputs": ["soon"], "outputs": [name]}
    files = ["late-0", "late-1"]
    tasks["sum"] = {"command": "cat late-* > sum", "inputs": files, "outputs": ["sum"]}
    (work / "w.yaml").write_text(json.dumps({"name": "letters", "tasks": tasks}))
    runs: list[RunOnTerminal] = []

    def begin(**environment: str) -> RunOnTerminal:
        runs.append(RunOnTerminal(work, **environment))
        return runs[-1]

    yield begin
    for one in runs:
        one.close()


def test_a_terminal_shows_what_runs_and_what_waits_and_is_left_clean(
    begun: Callable[..., RunOnTerminal], work: Path, tmp_path: Path
) -> None:
    goes = begun()
    host = f"{host_of(work)}       2     1   2 MB     0 B  2: late-0 "
    told = ("2 running, 1 waiting", "read: 2 MB where tasks ran (100 %), 0 B from other hosts")
    goes.wait_until(lambda: goes.shows("letters ", *told, host, "waits  for", "sum    late-0, "))
    assert "1 of 4 done" in goes.lines()[0]
    # A terminal that is too small shows the most important, also where it wraps what was drawn.
    goes.resize(40, 24, wraps=True)
    goes.wait_until(lambda: goes.shows("letters ", "host  runs now", "waits  for"))
    goes.resize(40, 7)
    goes.wait_until(lambda: goes.shows("letters ", "2 running") and not goes.shows("waits"))
    goes.resize(90, 24)
    goes.wait_until(lambda: goes.shows("letters ", "waits  for"))
    # While it is stopped the terminal is a shell's.
    goes.press(CTRL_Z)
    wait_until(lambda: goes.run.status() == psutil.STATUS_STOPPED)
    goes.wait_until(lambda: [line for line in goes.lines() if line] == [STOPPED])
    goes.press(ENTER)
    goes.wait_until(lambda: goes.shows("letters ", "waits  for"))
    (tmp_path / "go").touch()
    left = goes.end(0)
    assert [line.split(";")[0] for line in left] == [
        "letters: 4 tasks: 4 done",
        "read from disks: 10.0 MB, 100 % of them where the task ran, 0.0 MB from other hosts",
    ]
    assert b"\x1b[32m" in goes.written


def test_ctrl_c_is_answered_above_the_picture(begun: Callable[..., RunOnTerminal]) -> None:
    goes = begun(NO_COLOR="1")
    goes.wait_until(lambda: goes.shows("letters ", "waits  for"))
    goes.press(CTRL_C)
    goes.wait_until(lambda: goes.shows("SIGINT: nothing more begins", "letters ", "waits  for"))
    goes.press(CTRL_C)
    left = goes.end(130)
    assert left[0].startswith("SIGINT: nothing more begins")
    assert not [line for line in left if line.startswith(("letters █", "waits", "^C"))]
    assert left[-1] == "stopped: SIGINT; the same command goes on from here"
    assert b"\x1b[32m" not in goes.written


def test_kill_9_leaves_the_cursor_on_an_empty_line(begun: Callable[..., RunOnTerminal]) -> None:
    goes = begun()
    goes.wait_until(lambda: goes.shows("letters ", "waits  for"))
    goes.kill()
    goes.end(128 + signal.SIGKILL)


def test_a_terminal_that_cannot_draw_gets_lines(
    begun: Callable[..., RunOnTerminal], tmp_path: Path
) -> None:
    goes = begun(TERM="dumb")
    (tmp_path / "go").touch()
    assert goes.end(0)[0].startswith("letters: 4 tasks: 4 done")
    assert b"\x1b" not in goes.written


@pytest.mark.usefixtures("begun")
def test_a_run_goes_on_when_its_terminal_is_gone(work: Path, tmp_path: Path) -> None:
    # Not its controlling terminal, with which the kernel would end it.
    terminal, theirs = pty.openpty()
    goes = subprocess.Popen(
        RUN, cwd=work, stdin=theirs, stdout=theirs, stderr=theirs, env=PLAIN, start_new_session=True
    )
    try:
        os.close(theirs)
        written = b""
        while b"waits" not in written:
            written += os.read(terminal, 1 << 16)
        os.close(terminal)
        (tmp_path / "go").touch()
        assert goes.wait(60) == 0
    finally:
        goes.kill()
        goes.wait()
    assert (work / "sum").exists()
