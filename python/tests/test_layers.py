"""The layers of the Rust workspace: dependencies run downwards, `unsafe` and the outside world
stay where they belong.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RANKS = {
    "types": 0,
    **dict.fromkeys(("policy", "codec", "wire", "trace", "des", "lab", "sync"), 1),
    **dict.fromkeys(("meta", "store", "transport", "cluster", "predict", "simulate"), 2),
    "node": 3,
    "mount": 4,
    "cli": 5,
}
PURE = {"policy", "codec", "wire"}
MAY_BE_UNSAFE = {"codec", "store"}
MAY_KNOW_THE_SYSTEM = {"store", "transport", "node", "mount", "cli"}
SYSTEM_CRATES = {"libc", "nix", "tokio"}
DOES_IO = re.compile(r"\bstd::(fs|net|process)\b|\bSystemTime::now\b|\bInstant::now\b")

DEDUP = ROOT / "python/src/intarsia/dedup"
# What the rooms of `dedup` may import of it, beside its own; "" is the modules at the top.
DEDUP_ROOMS = {
    "": {""},
    "corpora": {""},
    "study": {"", "corpora"},
    "commands": {"", "corpora", "study"},
}
PACKAGE = ROOT / "python/src/intarsia"
IMPORT = re.compile(r"^\s*(?:from|import) ([\w.]+)", re.MULTILINE)

CRATES = sorted(path.parent.name for path in ROOT.glob("crates/*/Cargo.toml"))


def manifest(crate: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())


def dependencies(crate: str) -> set[str]:
    """Direct dependencies of the product; tests may use more."""
    return set(manifest(crate).get("dependencies", {}))


def sources(crate: str) -> list[Path]:
    return sorted((ROOT / "crates" / crate / "src").rglob("*.rs"))


@pytest.mark.parametrize("crate", CRATES)
def test_dependencies_run_downwards(crate: str) -> None:
    assert crate in RANKS, f"give crates/{crate} a rank in {Path(__file__).name}"
    below = {name.removeprefix("intarsia-") for name in dependencies(crate) if "intarsia-" in name}
    wrong = {name for name in below if RANKS[name] >= RANKS[crate]}
    assert not wrong, f"{crate} may not depend on {sorted(wrong)}"


@pytest.mark.parametrize("crate", CRATES)
def test_only_the_lower_ends_know_the_system(crate: str) -> None:
    if crate not in MAY_KNOW_THE_SYSTEM:
        assert not dependencies(crate) & SYSTEM_CRATES


@pytest.mark.parametrize("crate", CRATES)
def test_pure_crates_do_no_io(crate: str) -> None:
    if crate in PURE:
        for path in sources(crate):
            product = path.read_text().split("#[cfg(test)]")[0]
            assert not DOES_IO.search(product), path


@pytest.mark.parametrize("crate", CRATES)
def test_unsafe_stays_in_codec_and_store(crate: str) -> None:
    for path in sources(crate):
        code = "\n".join(line.split("//")[0] for line in path.read_text().splitlines())
        if re.search(r"\bunsafe\s*(\{|fn|impl)", code):
            assert crate in MAY_BE_UNSAFE, path


@pytest.mark.parametrize("crate", CRATES)
def test_every_crate_denies_what_the_workspace_denies(crate: str) -> None:
    lints = manifest(crate).get("lints", {})
    if lints == {"workspace": True}:
        return
    # Cargo lets a crate take all lints or none, so one that needs `unsafe` repeats the others.
    assert crate in MAY_BE_UNSAFE
    wanted = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["lints"]["clippy"]
    denied = {name for name, level in wanted.items() if level == "deny"}
    assert denied <= {name for name, level in lints["clippy"].items() if level == "deny"}


@pytest.mark.parametrize("room", DEDUP_ROOMS)
def test_rooms_of_dedup_import_downwards(room: str) -> None:
    for path in (DEDUP / room).glob("*.py"):
        if path.name == "__main__.py":
            continue
        for name in IMPORT.findall(path.read_text()):
            other = name.removeprefix("intarsia.dedup").strip(".").split(".")[0]
            if name.startswith("intarsia.dedup"):
                used = other if other in DEDUP_ROOMS else ""
                assert used in DEDUP_ROOMS[room] | {room}, f"{path} imports {name}"
            elif room in ("", "corpora") and path.name != "figures.py":
                assert name.split(".")[0] not in ("pandas", "matplotlib"), f"{path}: {name}"


def test_policies_know_no_engine_and_no_system() -> None:
    for path in (PACKAGE / "schedule").glob("*.py"):
        for name in IMPORT.findall(path.read_text()):
            inside = name == "intarsia.locate" or name.startswith("intarsia.schedule")
            # None of these knows a clock, a thread, a process or a file.
            pure = name in ("__future__", "collections", "dataclasses", "heapq", "typing")
            assert inside or pure or name == "collections.abc", f"{path} imports {name}"


def test_only_the_crew_of_a_run_knows_dask_and_only_its_page_pandas() -> None:
    allowed = {"dask": {"crew", "cluster"}, "distributed": {"crew", "cluster"}}
    allowed |= {"pandas": {"page"}, "matplotlib": {"page"}, "yaml": {"commands"}}
    for path in (PACKAGE / "run").glob("*.py"):
        for name in IMPORT.findall(path.read_text()):
            module = name.split(".")[0]
            assert path.stem in allowed.get(module, {path.stem}), f"{path} imports {name}"


def test_an_engine_is_imported_only_by_the_module_named_after_it() -> None:
    engines = {"dask", "distributed", "fsspec", "parsl", "snakemake_interface_common"}
    for path in [PACKAGE / "locate.py", *(PACKAGE / "engines").glob("*.py")]:
        used = {name.split(".")[0] for name in IMPORT.findall(path.read_text())} & engines
        own = {
            "dask": {"dask", "distributed"},
            "filesystem": {"fsspec"},
            "wire": {"fsspec"},
            "parsl": {"parsl"},
        }
        own |= {
            stem: {"snakemake_interface_common"} for stem in ("snakemake", "snakemake_scheduler")
        }
        assert used <= own.get(path.stem, set()), path
