"""Many files in one call: what it says and sets is what a call for each says and sets."""

from __future__ import annotations

import errno
import json
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
from intarsia.tag import tag

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
    for (int n = 3; n < count; n++)
        end = stpcpy(end, words[n]) + 1;
    int (*call)(int, char *) = strcmp(words[1], "tag") ? intarsia_locate : intarsia_tag;
    if (call(open(words[2], O_RDONLY | O_DIRECTORY), buffer) != 0) {
        perror("intarsia");
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
        found, singly = locate(paths), one_by_one(paths, monkeypatch)
        deadline = time.monotonic() + 60
        # A small file goes beside its inode some time after it was closed, also between both.
        while found != singly and time.monotonic() < deadline:
            found, singly = locate(paths), one_by_one(paths, monkeypatch)
        assert found == singly
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

    def ask(*words: str) -> list[str]:
        command = [str(tmp_path / "ask"), words[0], str(work), *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in (0, 1)
        return (done.stdout or done.stderr).splitlines()

    small, large, none, dot = ask("locate", *names)
    host = locate([work / "large"]).files[0].hosts[0]
    assert small.split()[1] == "size=16"
    assert large.split()[1:] == ["size=200000", f"hosts={host}"]
    assert none == f"errno={errno.ENOENT}"
    assert dot == "other"
    said = ask("tag", "close=fast cache=none", "small", "none", "large")
    assert said == ["ok", f"errno={errno.ENOENT}", "ok"]
    assert ask("tag", "close=slow", "small") == ["intarsia: Invalid argument"]
    assert hint(work / "large", "cache") == hint(work / "small", "cache") == "none"
    assert store.is_alive()


def hint(path: Path, name: str) -> str | None:
    """What a hint of a file says."""
    attribute = f"user.intarsia.{name}"
    return os.getxattr(path, attribute).decode() if attribute in os.listxattr(path) else None


def test_one_call_tags_thousands_of_files(work: Path, tmp_path: Path) -> None:
    (work / "inner").mkdir()
    some = [work / f"f{number:04}" for number in range(1500)] + [work / "inner/one", work / "inner"]
    for path in some[:-1]:
        path.touch()
    strange = [work / "none", tmp_path / "outside"]
    (work / "link").symlink_to("f0000")
    (tmp_path / "outside").touch()
    problems = tag([*some, work / "link", *strange], {"close": "fast", "lifetime": "job"})
    # The file system beneath the other one may have attributes of users.
    assert {*problems} - {str(strange[1])} == {str(strange[0])}, problems
    assert problems[str(strange[0])].errno == errno.ENOENT
    assert {hint(path, "close") for path in some} == {"fast"}
    assert {hint(path, "lifetime") for path in some} == {"job"}
    refused = tag(some[:3], {"lifetime": "for ever"})
    assert {error.errno for error in refused.values()} == {errno.EINVAL}
    with pytest.raises(ValueError, match="no hint"):
        tag(some, {})


def test_a_stranger_tags_only_what_is_his(work: Path) -> None:
    (work / "file").touch()
    (work / "his").touch()
    os.chown(work / "his", NOBODY, NOBODY)
    work.chmod(0o755)
    script = textwrap.dedent(f"""
        import os, sys
        from intarsia.tag import tag
        os.setgroups([])
        os.setgid({NOBODY}); os.setuid({NOBODY})
        print(*(error.errno for error in tag(sys.argv[1:], {{"close": "fast"}}).values()))
    """)
    words = [sys.executable, "-c", script, f"{work.name}/file", f"{work.name}/his"]
    done = subprocess.run(
        words, cwd=work.parent, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == f"{errno.EACCES}\n"
    assert (hint(work / "file", "close"), hint(work / "his", "close")) == (None, "fast")


def test_the_command_asks_for_many_at_once_and_says_the_same(work: Path, store: Store) -> None:
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        whole = [str(store.binary), *words]
        return subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False)

    names = [f"f{number:04}" for number in range(300)]
    for place, name in enumerate(names):
        (work / name).write_bytes(bytes(place % 3 * 40_000))
    (work / "inner").mkdir()
    (work / "inner/b c").write_bytes(bytes(50_000))
    (work / "link").symlink_to("f0001")
    paths = [str(work / name) for name in [*names, "inner/b c", "link"]]
    assert command("hint", "set", "close=fast", *paths).returncode == 0
    assert {hint(Path(path), "close") for path in paths} == {"fast"}
    many = json.loads(command("locate", "--json", "--chunks", *paths).stdout)
    assert [one["file"] for one in many] == paths
    for path, said in list(zip(paths, many, strict=True))[::50]:
        assert json.loads(command("locate", "--json", "--chunks", path).stdout) == [said]
    refused = command("hint", "set", "close=safe", *paths, str(work / "none"))
    assert refused.returncode != 0
    assert "No such file" in refused.stderr
    assert hint(work / "f0000", "close") == "fast", "nothing is changed where a path is wrong"
    refused = command("locate", *paths, str(work / "none"))
    assert refused.returncode != 0
    assert "No such file" in refused.stderr
    assert refused.stdout.count("\n") == len(paths)
