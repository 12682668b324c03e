"""A demonstration from the first input file to the last trace removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intarsia.demo.progress import Progress
from intarsia.demo.trial import NATIVE, STORE, Tree, Trial, check_equal, clear, run_trial, schedule
from intarsia.demo.workflow import Workflow, WorkflowError, missing_programs
from intarsia.lab_store import AnyStore, LabStore, lab_problem
from intarsia.store import Store, StoreError, find_binary, fuse_problem, logged_warnings

_FORGET_LIMIT_S = 30


@dataclass(frozen=True)
class Options:
    """What the caller chose."""

    scratch: Path
    out: Path
    rounds: int = 3
    mount: Path | None = None
    passthrough: bool = True
    hosts: int = 1
    native_only: bool = False
    keep: bool = False


@dataclass
class Outcome:
    """What one workflow's demonstration found."""

    workflow: str
    size: str
    trials: list[Trial] = field(default_factory=list)
    tree: Tree | None = None
    status: dict[str, Any] | None = None
    requests: int | None = None
    location: Any = None
    picture: Path | None = None
    kept: Path | None = None


def demonstrate(workflow: Workflow, size: str, options: Options, progress: Progress) -> Outcome:
    """Run `workflow` in every place by turns, compare, collect, and clean up."""
    _require(workflow, options)
    outcome = Outcome(workflow.name, size)
    options.scratch.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{workflow.name}-", dir=options.scratch)).resolve()
    try:
        progress.say(f"preparing the inputs in {scratch}")
        workflow.prepare(scratch / "inputs")
        with _store(scratch, options, progress) as store:
            _run_all(workflow, scratch, store, options, progress, outcome)
    finally:
        if options.keep:
            outcome.kept = scratch
        else:
            _remove(scratch)
    return outcome


def _require(workflow: Workflow, options: Options) -> None:
    missing = missing_programs(workflow.programs)
    if missing:
        raise WorkflowError("programs are missing: " + ", ".join(missing) + "; run `make setup`")
    if options.native_only:
        return
    problem = fuse_problem()
    if problem:
        raise StoreError(f"nothing can be mounted here: {problem}")
    find_binary()
    if options.hosts > 1 and (problem := lab_problem()):
        raise StoreError(f"no store over several hosts can be tried here: {problem}")


@contextlib.contextmanager
def _store(scratch: Path, options: Options, progress: Progress) -> Iterator[AnyStore | None]:
    """A store that is up inside the block, and after it is down without a trace."""
    if options.native_only:
        yield None
        return
    mount = (options.mount or scratch / "mount").absolute()
    progress.say(f"bringing a store up on {mount}")
    store: AnyStore
    if options.hosts > 1:
        store = LabStore.up(mount, scratch / "store", options.hosts)
    else:
        store = Store.up(mount, scratch / "store", passthrough=options.passthrough)
    try:
        yield store
    except BaseException as failure:
        for line in logged_warnings(store.directory):
            failure.add_note(f"the store had logged, {line}")
        # The first failure is the one to report; the store still has to go.
        try:
            store.down(purge=not options.keep)
        except StoreError as error:
            failure.add_note(f"and taking the store down failed: {error}")
        raise
    progress.say("taking the store down")
    store.down(purge=not options.keep)
    _verify_gone(store, options.keep)


def _verify_gone(store: AnyStore, keep: bool) -> None:
    left = store.leftovers()
    if left:
        raise StoreError("`intarsia down` left something behind: " + "; ".join(left))
    for mount in store.mounts:
        if mount.exists() and any(mount.iterdir()):
            raise StoreError(f"{mount} is not empty after `intarsia down`")
    if not keep and store.directory.exists() and any(store.directory.iterdir()):
        raise StoreError(f"{store.directory} is still there after `intarsia down --purge`")


def _run_all(
    workflow: Workflow,
    scratch: Path,
    store: AnyStore | None,
    options: Options,
    progress: Progress,
    outcome: Outcome,
) -> None:
    roots = {NATIVE: [scratch / "native"]}
    if store is not None:
        roots[STORE] = [mount / workflow.name for mount in store.mounts]
    order = schedule(list(roots), options.rounds)
    tasks = sum(len(stage.tasks) for stage in workflow.stages(scratch / "inputs"))
    requests_before = _requests(store)
    store_runs = max(1, order.count(STORE))
    for number, place in enumerate(order, start=1):
        progress.begin(f"{workflow.name} run {number}/{len(order)} ({place})", tasks)
        directories = [root / f"run-{number}" for root in roots[place]]
        inputs, workers = scratch / "inputs", os.cpu_count() or 1
        trial = run_trial(workflow, inputs, place, directories, workers, progress.step)
        progress.end(trial.seconds)
        outcome.trials.append(trial)
        check_equal(outcome.trials[0], trial)
        if place not in order[number:]:
            _collect(workflow, trial, store, options, outcome)
        if not options.keep:
            clear(directories[0])
    requests_after = _requests(store)
    if requests_before is not None and requests_after is not None:
        outcome.requests = (requests_after - requests_before) // store_runs
    if store is not None and not options.keep:
        (store.mounts[0] / workflow.name).rmdir()
        _verify_empty(store)


def _collect(
    workflow: Workflow, trial: Trial, store: AnyStore | None, options: Options, outcome: Outcome
) -> None:
    """Look at the last run of a place while its files are still there."""
    if trial.place == STORE or store is None:
        outcome.tree = Tree.of(trial.directory)
        outcome.picture = _save_picture(workflow, trial.directory, options.out)
    if trial.place == STORE and store is not None:
        outcome.status = store.status()
        outcome.location = store.locate([_largest(trial.directory)])


def _save_picture(workflow: Workflow, directory: Path, out: Path) -> Path | None:
    pictures = sorted(directory.glob("*.png"))
    if not pictures:
        return None
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copyfile(pictures[0], out / f"{workflow.name}-{pictures[0].name}"))


def _largest(directory: Path) -> Path:
    files: Sequence[Path] = [path for path in directory.rglob("*") if path.is_file()]
    return max(files, key=lambda path: (path.stat().st_size, str(path)))


def _requests(store: AnyStore | None) -> int | None:
    if store is None:
        return None
    count = store.status().get("requests")
    return count if isinstance(count, int) else None


def _verify_empty(store: AnyStore) -> None:
    """The store counts its own inodes: only the root may be left once the runs are removed."""
    deadline = time.monotonic() + _FORGET_LIMIT_S
    # The kernel tells the store in the background which inodes it has forgotten.
    while (inodes := store.status().get("inodes", 1)) > 1:
        if time.monotonic() > deadline:
            raise StoreError(f"the store still counts {inodes} inodes after all were removed")
        time.sleep(0.05)


def _remove(scratch: Path) -> None:
    """Remove the scratch directory, but never what lies behind a mount that is still there."""
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        if any(line.split()[4].startswith(f"{scratch}/") for line in table):
            print(f"{scratch} still holds a mount and is left in place", file=sys.stderr)
            return
    shutil.rmtree(scratch)
