"""Everyday programs in the mount."""

from __future__ import annotations

import filecmp
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import require
from shell import run, shell


def make_tree(directory: Path, files: int = 200) -> None:
    """Make a tree with files of many sizes, links of both kinds, holes and odd names."""
    chance = random.Random(7)
    for number in range(files):
        folder = directory / f"d{number % 7}" / f"e{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        size = chance.choice([0, 1, 100, 4095, 4096, 4097, 70_000])
        (folder / f"f{number}").write_bytes(chance.randbytes(size))
    (directory / "name with blank, ünïcode and\nnewline").write_text("odd")
    (directory / "script").write_text("#!/bin/sh\necho ran\n")
    (directory / "script").chmod(0o755)
    (directory / "empty").mkdir()
    (directory / "lone").mkdir()
    (directory / "symlink").symlink_to("d0/e0")
    (directory / "dangling").symlink_to("nowhere")
    os.link(directory / "script", directory / "lone" / "hard link")
    with open(directory / "sparse", "wb") as file:
        file.write(b"head")
        file.seek(3 << 20)
        file.write(b"tail")
    os.utime(directory / "script", ns=(1_234_567_890_123_456_789, 987_654_321_987_654_321))


def manifest(directory: Path) -> dict[str, tuple[object, ...]]:
    """Describe every entry by all that a faithful copy keeps."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(directory.rglob("*")):
        about = path.lstat()
        body: object = None
        if path.is_symlink():
            body = path.readlink()
        elif path.is_file():
            body = path.read_bytes()
        # A directory changes while it is filled, and rsync leaves the time of a dangling link.
        times = about.st_mtime_ns if path.is_file() and not path.is_symlink() else None
        links = None if path.is_dir() else about.st_nlink
        owner = (about.st_uid, about.st_gid)
        found[str(path.relative_to(directory))] = (about.st_mode, owner, links, times, body)
    return found


def test_git_clone_commit_checkout_gc_fsck(work: Path, native: Path) -> None:
    make_tree(native)
    shell("git init -q -b main && git add -A && git commit -q -m one", native)
    run("git", "clone", "-q", native, work / "clone", cwd=work)
    clone = work / "clone"
    shell(
        """
        git switch -q -c other
        for n in $(seq 40); do echo "$n" > "file$n"; git add -A; git commit -q -m "$n"; done
        git rm -q -r d1 && git commit -q -m remove
        git switch -q main && test -d d1 && test ! -e file1
        git merge -q other && test ! -e d1 && test -e file40
        git switch -q --detach main~41 && test -d d1
        git stash list && git status --porcelain | diff - /dev/null
        git gc -q --prune=now
        git fsck --strict --full
        git switch -q main
        """,
        clone,
    )
    # A clone from the mount to the mount shares its objects by hard links.
    run("git", "clone", "-q", clone, work / "second", cwd=work)
    assert run("git", "rev-parse", "main", cwd=work / "second") == run(
        "git", "rev-parse", "main", cwd=clone
    )


def test_tar_round_trip(work: Path) -> None:
    (work / "tree").mkdir()
    make_tree(work / "tree")
    shell("tar --format=posix -cSf tree.tar tree && mkdir out && tar -xpSf tree.tar -C out", work)
    assert manifest(work / "out" / "tree") == manifest(work / "tree")


def test_rsync_round_trip_with_links_acls_and_attributes(work: Path, native: Path) -> None:
    source = native / "source"
    source.mkdir()
    make_tree(source)
    os.setxattr(source / "script", "user.note", b"kept")
    os.setxattr(source / "d0", "user.note", b"on a directory")
    refused = subprocess.run(["setfacl", "-m", "u:4321:rw", source / "sparse"], check=False)
    require(refused.returncode == 0, f"the file system of {native} has no access control lists")
    run("setfacl", "-d", "-m", "g:4321:rx", "d2", cwd=source)
    if os.geteuid() == 0:
        os.chown(source / "d3", 1234, 2345)
    run("rsync", "-aHAX", f"{source}/", f"{work}/copy/", cwd=native)
    run("rsync", "-aHAX", f"{work}/copy/", f"{native}/back/", cwd=native)
    for copy in (work / "copy", native / "back"):
        changes = run("rsync", "-aHAXnci", "--delete", f"{source}/", f"{copy}/", cwd=native)
        assert changes == ""
        assert manifest(copy) == manifest(source)


def test_acls_are_kept_inherited_and_shown_in_the_mode(work: Path) -> None:
    (work / "file").touch(mode=0o640)
    run("setfacl", "-m", "u:4321:rwx", "file", cwd=work)
    assert "user:4321:rwx" in run("getfacl", "-n", "file", cwd=work)
    assert (work / "file").stat().st_mode & 0o777 == 0o670
    (work / "dir").mkdir()
    run("setfacl", "-d", "-m", "u:4321:rx", "dir", cwd=work)
    (work / "dir" / "sub").mkdir()
    assert "default:user:4321:r-x" in run("getfacl", "-n", "dir/sub", cwd=work)
    run("setfacl", "-b", "file", cwd=work)
    assert "4321" not in run("getfacl", "-n", "file", cwd=work)


def test_cargo_builds_a_crate_and_finds_it_fresh(work: Path) -> None:
    require(shutil.which("cargo") is not None, "cargo is not in the PATH")
    (work / "src").mkdir()
    (work / "Cargo.toml").write_text(
        '[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n'
    )
    (work / "src" / "lib.rs").write_text(
        "pub fn twice(x: u64) -> u64 { 2 * x }\n"
        "#[test] fn doubles() { assert_eq!(twice(21), 42); }\n"
    )
    (work / "src" / "main.rs").write_text('fn main() { println!("{}", tiny::twice(21)); }\n')
    cargo = {"CARGO_TARGET_DIR": str(work / "target"), "CARGO_INCREMENTAL": "1"}
    build = ("cargo", "run", "--offline", "--quiet")
    assert run(*build, cwd=work, environment=cargo) == "42\n"
    run("cargo", "test", "--offline", "--quiet", cwd=work, environment=cargo)
    built = (work / "target" / "debug" / "tiny").stat().st_mtime_ns
    run("cargo", "build", "--offline", cwd=work, environment=cargo)
    assert (work / "target" / "debug" / "tiny").stat().st_mtime_ns == built
    (work / "src" / "lib.rs").write_text("pub fn twice(x: u64) -> u64 { x + x + 1 }\n")
    assert run(*build, cwd=work, environment=cargo) == "43\n"


@pytest.mark.parametrize("option", ["--reflink=auto", "--sparse=always", "--archive"])
def test_cp(work: Path, option: str) -> None:
    make_tree(work, files=0)
    run("cp", option, "sparse", "copy", cwd=work)
    assert filecmp.cmp(work / "sparse", work / "copy", shallow=False)


def test_cp_of_a_file_that_another_process_has_just_written_and_holds_open(work: Path) -> None:
    """Programs that skip holes must never take fresh bytes for one."""
    with open(work / "log", "wb", buffering=0) as log:
        log.seek(1 << 20)
        log.write(b"x" * 300_000)
        run("cp", "log", "copy", cwd=work)
        assert (work / "copy").read_bytes() == bytes(1 << 20) + b"x" * 300_000


def test_dd_writes_appends_and_overwrites(work: Path) -> None:
    shell(
        """
        dd if=/dev/urandom of=a bs=64k count=17 conv=fsync status=none
        dd if=a of=b bs=1000 status=none
        cmp a b
        dd if=a of=b bs=64k count=1 oflag=append conv=notrunc status=none
        test "$(stat -c %s b)" = $((18 * 65536))
        dd if=/dev/zero of=b bs=1 seek=100000 count=1 conv=notrunc status=none
        cmp -n 100000 a b
        truncate -s 50000 b
        cmp -n 50000 a b && test "$(stat -c %s b)" = 50000
        dd if=a of=direct bs=64k oflag=direct status=none
        cmp a direct
        """,
        work,
    )


def test_sort_with_temporary_files_in_the_mount(work: Path) -> None:
    numbers = [str(number) for number in range(200_000)]
    random.Random(3).shuffle(numbers)
    (work / "numbers").write_text("\n".join(numbers) + "\n")
    run("sort", "-n", "-S", "1M", "-T", work, "-o", "numbers", "numbers", cwd=work)
    assert (work / "numbers").read_text().split() == [str(number) for number in range(200_000)]


def test_sed_and_perl_edit_in_place(work: Path) -> None:
    (work / "text").write_text("one two\n" * 1000)
    (work / "text").chmod(0o640)
    run("sed", "-i", "s/two/three/", "text", cwd=work)
    run("perl", "-i", "-pe", "s/one/1/", "text", cwd=work)
    assert (work / "text").read_text() == "1 three\n" * 1000
    assert (work / "text").stat().st_mode & 0o777 == 0o640


def test_copytree_and_rmtree(work: Path) -> None:
    (work / "tree").mkdir()
    make_tree(work / "tree")
    shutil.copytree(work / "tree", work / "copy", symlinks=True)
    found = filecmp.dircmp(work / "tree", work / "copy")
    assert found.left_only + found.right_only + found.diff_files + found.funny_files == []
    shutil.rmtree(work / "tree")
    assert not (work / "tree").exists()


def test_a_program_in_the_mount_runs(work: Path) -> None:
    shutil.copy2("/bin/ls", work / "ls")
    assert "ls" in run("./ls", cwd=work).split()
    make_tree(work, files=0)
    assert run("./script", cwd=work) == "ran\n"


def test_find_du_and_df_agree_with_what_was_written(work: Path) -> None:
    (work / "file").write_bytes(random.Random(1).randbytes(3 << 20))
    run("sync", "file", cwd=work)
    assert run("find", ".", "-type", "f", "-size", "+2M", cwd=work).split() == ["./file"]
    kib = int(run("du", "-k", "file", cwd=work).split()[0])
    assert 3 * 1024 <= kib <= 3 * 1024 + 64
    total, used, free = shutil.disk_usage(work)
    assert total > 0
    assert used + free <= total
