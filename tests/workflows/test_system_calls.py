"""What programs expect of a local file system beyond reading and writing."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from shell import finish, python

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
AT_FDCWD = -100

_libc = ctypes.CDLL(None, use_errno=True)


def renameat2(old: Path, new: Path, flags: int) -> None:
    done = _libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags)
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def test_a_shared_map_is_one_memory_for_two_processes(work: Path) -> None:
    path = work / "shared"
    path.write_bytes(bytes(8192))
    other = python(
        "import mmap, sys\n"
        "file = open('shared', 'r+b')\n"
        "view = mmap.mmap(file.fileno(), 0)\n"
        "file.close()\n"
        "view[5000] = 7\n"
        "print('written', flush=True)\n"
        "sys.stdin.readline()\n"
        "assert view[0] == 9\n",
        work,
    )
    with open(path, "r+b") as file:
        view = mmap.mmap(file.fileno(), 0)
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == "written\n"
    assert view[5000] == 7
    view[0] = 9
    finish(other)
    view.close()
    assert (path.read_bytes()[0], path.read_bytes()[5000]) == (9, 7)


def test_writes_through_a_map_and_through_a_descriptor_are_one_file(work: Path) -> None:
    path = work / "mixed"
    path.write_bytes(bytes(4096))
    with open(path, "r+b", buffering=0) as file, mmap.mmap(file.fileno(), 0) as view:
        view[10:13] = b"map"
        assert os.pread(file.fileno(), 3, 10) == b"map"
        os.pwrite(file.fileno(), b"pwrite", 100)
        assert view[100:106] == b"pwrite"


def test_a_map_outlives_close_and_unlink(work: Path) -> None:
    path = work / "gone"
    path.write_bytes(b"kept" * 1024)
    with open(path, "r+b") as file:
        view = mmap.mmap(file.fileno(), 0)
    path.unlink()
    view[0:4] = b"new!"
    assert view[0:8] == b"new!kept"
    view.close()


def test_flock_holds_between_processes_until_the_holder_ends(work: Path) -> None:
    holder = python(
        "import fcntl, sys\n"
        "file = open('lock', 'w')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.readline()\n",
        work,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with open(work / "lock") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finish(holder)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_fcntl_locks_cover_ranges_between_processes(work: Path) -> None:
    holder = python(
        "import fcntl, sys\n"
        "file = open('lock', 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX, 100, 0)\n"
        "print('held', flush=True)\n"
        "sys.stdin.readline()\n",
        work,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with open(work / "lock", "r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 100)
        with pytest.raises(OSError, match=r"unavailable|denied"):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 95)
        finish(holder)
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 95)


def test_a_fifo_carries_bytes_between_processes(work: Path) -> None:
    os.mkfifo(work / "fifo")
    writer = python("open('fifo', 'wb').write(b'x' * 1_000_000)", work)
    reader = python("print(len(open('fifo', 'rb').read()))", work)
    assert finish(writer, reader)[1] == "1000000\n"
    assert stat.S_ISFIFO((work / "fifo").stat().st_mode)


def test_a_unix_socket_connects_processes(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The name of a socket holds at most 107 bytes, so it is given relative to the directory.
    monkeypatch.chdir(work)
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(60)
        server.bind("socket")
        server.listen()
        client = python(
            "import socket\n"
            "with socket.socket(socket.AF_UNIX) as s:\n"
            "    s.connect('socket'); s.sendall(b'hello')\n",
            work,
        )
        connection, _ = server.accept()
        with connection:
            assert connection.recv(100) == b"hello"
        finish(client)
    assert stat.S_ISSOCK((work / "socket").stat().st_mode)


def test_a_sparse_file_has_holes_where_nothing_was_written(work: Path) -> None:
    path = work / "sparse"
    with open(path, "wb") as file:
        file.truncate(16 << 20)
        file.seek(8 << 20)
        file.write(b"d" * 65536)
    with open(path, "rb") as file:
        number = file.fileno()
        assert os.lseek(number, 0, os.SEEK_DATA) == 8 << 20
        assert os.lseek(number, 8 << 20, os.SEEK_HOLE) == (8 << 20) + 65536
        with pytest.raises(OSError, match="No such device or address"):
            os.lseek(number, 12 << 20, os.SEEK_DATA)
        assert os.pread(number, 4, 4 << 20) == bytes(4)
    assert path.stat().st_blocks * 512 < 1 << 20
    assert path.stat().st_size == 16 << 20


def test_bytes_written_a_moment_ago_are_never_a_hole(work: Path) -> None:
    with open(work / "fresh", "w+b", buffering=0) as file:
        file.truncate(4 << 20)
        os.pwrite(file.fileno(), b"d" * 4096, 2 << 20)
        assert os.lseek(file.fileno(), 0, os.SEEK_DATA) <= 2 << 20
        assert os.lseek(file.fileno(), 2 << 20, os.SEEK_HOLE) >= (2 << 20) + 4096


def test_fallocate_reserves_and_punches(work: Path) -> None:
    path = work / "space"
    path.write_bytes(b"x" * (1 << 20))
    subprocess.run(["fallocate", "-l", "2MiB", path], check=True, timeout=60)
    assert path.stat().st_size == 2 << 20
    punch = ["fallocate", "--punch-hole", "-o", "4096", "-l", "8192", str(path)]
    subprocess.run(punch, check=True, timeout=60)
    assert path.read_bytes()[4095:12289] == b"x" + bytes(8192) + b"x"


def test_copy_file_range_copies_within_the_mount(work: Path) -> None:
    (work / "from").write_bytes(b"0123456789" * 100_000)
    with open(work / "from", "rb") as source, open(work / "to", "wb") as target:
        left = 1_000_000
        while left:
            copied = os.copy_file_range(source.fileno(), target.fileno(), left)
            assert copied > 0
            left -= copied
    assert (work / "to").read_bytes() == (work / "from").read_bytes()


def test_nameless_files_work_or_are_refused_so_that_programs_fall_back(work: Path) -> None:
    try:
        os.close(os.open(work, os.O_TMPFILE | os.O_RDWR, 0o600))
        refusal = None
    except OSError as error:
        refusal = error.errno
    assert refusal in (None, errno.EOPNOTSUPP, errno.EISDIR)
    with tempfile.TemporaryFile(dir=work) as file:
        file.write(b"scratch")
        file.seek(0)
        assert file.read() == b"scratch"
    assert list(work.iterdir()) == []


def test_an_open_file_lives_on_after_unlink_and_after_being_replaced(work: Path) -> None:
    (work / "old").write_text("old")
    (work / "new").write_text("new")
    with open(work / "old", "r+") as held:
        (work / "new").replace(work / "old")
        assert held.read() == "old"
        held.write(" and more")
        held.flush()
        held.seek(0)
        assert held.read() == "old and more"
        assert os.fstat(held.fileno()).st_nlink == 0
    assert (work / "old").read_text() == "new"


def test_rename_exchanges_and_refuses_to_replace(work: Path) -> None:
    (work / "file").write_text("file")
    (work / "dir" / "deep").mkdir(parents=True)
    with pytest.raises(FileExistsError):
        renameat2(work / "file", work / "dir", RENAME_NOREPLACE)
    renameat2(work / "file", work / "dir", RENAME_EXCHANGE)
    assert (work / "dir").read_text() == "file"
    assert (work / "file" / "deep").is_dir()
    renameat2(work / "dir", work / "free", RENAME_NOREPLACE)
    assert sorted(path.name for path in work.iterdir()) == ["file", "free"]


def test_extended_attributes(work: Path) -> None:
    path = work / "file"
    path.touch()
    os.setxattr(path, "user.a", b"1")
    os.setxattr(path, "user.big", b"\x00\xff" * 1500)
    assert sorted(name for name in os.listxattr(path) if name.startswith("user.")) == [
        "user.a",
        "user.big",
    ]
    assert os.getxattr(path, "user.big") == b"\x00\xff" * 1500
    with pytest.raises(FileExistsError):
        os.setxattr(path, "user.a", b"2", os.XATTR_CREATE)
    with pytest.raises(OSError, match="No data available"):
        os.setxattr(path, "user.b", b"2", os.XATTR_REPLACE)
    os.removexattr(path, "user.a")
    with pytest.raises(OSError, match="No data available"):
        os.getxattr(path, "user.a")


def test_times_keep_nanoseconds(work: Path) -> None:
    path = work / "file"
    path.touch()
    os.utime(path, ns=(1_000_000_001, 2_000_000_000_000_000_003))
    assert path.stat().st_atime_ns == 1_000_000_001
    assert path.stat().st_mtime_ns == 2_000_000_000_000_000_003


def test_appends_of_two_processes_do_not_overwrite_each_other(work: Path) -> None:
    code = (
        "import os, sys\n"
        "log = os.open('log', os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
        "for n in range(500): os.write(log, (sys.argv[1] * 79 + '\\n').encode())\n"
    )
    finish(*(python(code, work, letter) for letter in "abc"))
    lines = (work / "log").read_text().splitlines()
    assert sorted(lines) == sorted(letter * 79 for letter in "abc" for _ in range(500))


def test_a_directory_of_20000_files_is_listed_whole(work: Path) -> None:
    names = {f"entry-{number:05d}" for number in range(20_000)}
    for name in names:
        os.close(os.open(work / name, os.O_CREAT | os.O_WRONLY, 0o644))
    assert {path.name for path in work.iterdir()} == names
    with os.scandir(work) as entries:
        assert all(entry.is_file() and entry.stat().st_size == 0 for entry in entries)
    listed = subprocess.run(["ls", "-U", work], check=True, capture_output=True, timeout=120)
    assert len(listed.stdout.split()) == 20_000
    # Removing while listing must reach every entry: this is what `rm -rf` does.
    with os.scandir(work) as entries:
        for entry in entries:
            Path(entry.path).unlink()
    assert not any(work.iterdir())
