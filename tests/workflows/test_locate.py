"""Locating many files in one call says what asking for each says."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from intarsia import batch
from intarsia.locate import Locations, locate
from intarsia.store import Store

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
PROGRAM = """
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "intarsia.h"

int main(int count, char **words)
{
    static char buffer[INTARSIA_BUFFER_BYTES];
    char *end = buffer;
    for (int n = 2; n < count; n++)
        end = stpcpy(end, words[n]) + 1;
    if (intarsia_locate(open(words[1], O_RDONLY | O_DIRECTORY), buffer) != 0) {
        perror("intarsia_locate");
        return 1;
    }
    for (const char *said = buffer; *said; said += strlen(said) + 1)
        puts(said);
    return 0;
}
"""


def one_by_one(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> Locations:
    """Locate without the call."""
    with monkeypatch.context() as patch:
        patch.setattr("intarsia.locate.answers", refuse)
        return locate(paths)


def refuse(_directory: str, _names: list[str]) -> list[str]:
    raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))


def test_what_one_call_says_is_what_asking_for_each_says(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["plain", "a\nline", "a\tb c=d", "x" * 255, "\udcff", *(f"n{n:04}" for n in range(600))]
    for place, name in enumerate(names):
        (work / name).write_bytes(b"x" * (place % 7 * 40_000))
    (work / "directory").mkdir()
    (work / "directory/inner").write_bytes(bytes(70_000))
    (work / "link").symlink_to("plain")
    (work / "dangling").symlink_to("none")
    strange = ["directory", "directory/inner", "link", "dangling", "none", ".", "y" * 256, "none/x"]
    paths = [work / name for name in [*names, *strange, "plain"]] + [ROOT, Path("relative")]
    with (work / "open").open("wb") as file:
        file.write(bytes(123_456))
        file.flush()
        # Before, with write-back, the kernel alone knows the length.
        os.fsync(file.fileno())
        paths.append(work / "open")
        found = locate(paths)
        deadline = time.monotonic() + 60
        # A small file goes beside its inode some time after it was closed.
        while found != one_by_one(paths, monkeypatch) and time.monotonic() < deadline:
            found = locate(paths)
        assert found == one_by_one(paths, monkeypatch)
    assert found.files[1].size_bytes == 40_000
    assert [file.problem for file in found.files].count(None) == len(names) + 4


def test_the_call_is_for_directories_of_a_store(work: Path, tmp_path: Path) -> None:
    (work / "file").write_text("x")
    for directory in (work / "file", tmp_path):
        with pytest.raises(OSError, match=r"Not a directory|Inappropriate ioctl"):
            list(batch.answers(str(directory), ["file"]))


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o744, 0o705])
def test_a_stranger_is_told_what_he_may_look_up(work: Path, mode: int) -> None:
    (work / "file").write_bytes(bytes(40_000))
    work.chmod(mode)
    script = textwrap.dedent(f"""
        import os, sys
        from intarsia.locate import locate
        os.setgroups([])
        os.setgid({NOBODY}); os.setuid({NOBODY})
        file = locate([sys.argv[1]]).files[0]
        print(file.size_bytes, file.problem)
    """)
    words = [sys.executable, "-c", script, f"{work.name}/file"]
    # What stands above the mount does not let strangers in.
    done = subprocess.run(
        words, cwd=work.parent, capture_output=True, text=True, timeout=60, check=True
    )
    is_let_in = mode & 0o001 != 0
    assert done.stdout == ("40000 None\n" if is_let_in else "0 Permission denied\n")


def test_a_program_in_c_asks_with_the_header(work: Path, store: Store, tmp_path: Path) -> None:
    (work / "small").write_text("beside its inode")
    (work / "large").write_bytes(bytes(200_000))
    (tmp_path / "ask.c").write_text(PROGRAM)
    compiled = ["cc", "-Wall", "-Werror", "-I", str(ROOT / "docs/user"), "-o", "ask", "ask.c"]
    subprocess.run(compiled, cwd=tmp_path, check=True, timeout=60)
    names = ["small", "large", "none", "."]
    words = [str(tmp_path / "ask"), str(work), *names]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    small, large, none, dot = said.splitlines()
    host = locate([work / "large"]).files[0].hosts[0]
    assert small.split()[1] == "size=16"
    assert large.split()[1:] == ["size=200000", f"hosts={host}"]
    assert none == f"errno={errno.ENOENT}"
    assert dot == "other"
    assert store.is_alive()
