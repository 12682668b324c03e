"""Every example of the README and of the users' pages does what it says.

Each page has a place of its own (see `page_place`), in which its blocks run one after the other as
they are written: `sh` blocks must not fail, `console` blocks must print what has the shape that is
shown (see `pages`), `python` blocks must not raise. What cannot run here says so in the page, in a
comment that Markdown hides, and is listed at the end. Pages run side by side, as most of their time
is waiting.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import SCRATCH, require
from intarsia.store import StoreError, find_binary, fuse_problem
from page_place import Place
from pages import Block, blocks_of, commands_of, difference, shows_failure

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "README.md",
    *sorted(f"docs/user/{page.name}" for page in (ROOT / "docs/user").glob("*.md")),
]
AT_ONCE = 4


def run_page(name: str, directory: Path, binary: Path) -> list[str]:
    """Run the examples of a page; return what is wrong with them."""
    blocks = [block for block in blocks_of(ROOT / name, name) if block.not_run is None]
    if not blocks:
        return []
    has_hosts = any("node[" in block.text for block in blocks)
    place = Place(directory, binary, sys.executable, has_hosts=has_hosts)
    try:
        return [problem for block in blocks for problem in run_block(place, block)]
    finally:
        place.close()


def run_block(place: Place, block: Block) -> list[str]:
    """Run one block; return what is wrong with it."""
    if block.before:
        status, printed = place.run(stopping_at_failure(block.before))
        if status != 0:
            return [f"{block.place}: what is done before it failed:\n{printed}"]
    if block.language == "console":
        return run_console(place, block)
    text = block.text
    if block.language == "python":
        text = f"python - <<'END-OF-EXAMPLE'\n{text}END-OF-EXAMPLE\n"
    status, printed = place.run(stopping_at_failure(text))
    return [f"{block.place}: failed:\n{printed}"] if status != 0 else []


def stopping_at_failure(script: str) -> str:
    """Make a script of which each command must succeed; the shell itself goes on."""
    trap = """trap 'failed+="$BASH_COMMAND: exit status $?; "' ERR"""
    return f"""failed=; {trap}\n{script}\ntrap - ERR; echo "$failed"; [ -z "$failed" ]\n"""


def run_console(place: Place, block: Block) -> list[str]:
    """Run the commands of a console block and compare what they print."""
    problems = []
    commands = commands_of(block)
    for number, command in enumerate(commands):
        status, printed = place.run(command.text + "\n")
        following = commands[number + 1].text if number + 1 < len(commands) else ""
        may_fail = shows_failure(command) or following == "echo $?"
        if status != 0 and not may_fail:
            problems.append(f"{block.place}: `{command.text}` failed with {status}:\n{printed}")
        elif (unlike := difference(command.shown, printed)) is not None:
            problems.append(f"{block.place}: `{command.text}` prints something else\n{unlike}")
    return problems


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, Future[list[str]]]]:
    """All pages, under way."""
    problem = fuse_problem()
    require(problem is None, str(problem))
    require(os.geteuid() == 0, "root is needed, for namespaces and mounts")
    for program in ("unshare", "nsenter", "redis-server", "nft", "setfattr"):
        require(shutil.which(program) is not None, f"{program} is not in the PATH")
    try:
        binary = Path(find_binary()).resolve()
    except StoreError as error:
        require(False, str(error))
    with (
        tempfile.TemporaryDirectory(prefix="intarsia-pages-", dir=SCRATCH) as home,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        started = {}
        for page in PAGES:
            directory = Path(home).resolve() / page.replace("/", "-")
            directory.mkdir()
            started[page] = pool.submit(run_page, page, directory, binary)
        yield started


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_do_what_it_says(
    page: str, outcomes: dict[str, Future[list[str]]]
) -> None:
    problems = outcomes[page].result()
    assert not problems, "\n\n".join(problems)


def test_what_is_not_run_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for page in PAGES for block in blocks_of(ROOT / page, page)]
    marked = [block for block in blocks if block.not_run is not None]
    with capsys.disabled():
        print(f"\n{len(blocks) - len(marked)} examples run, {len(marked)} do not:")
        for block in marked:
            print(f"  {block.place}: {block.not_run}")
    assert all(block.not_run for block in marked), "a reason is missing"
    assert len(blocks) > 50
