"""Choosing among more configurations than can all be predicted: what `advise --search` does.

Optuna proposes configurations in batches, the program predicts each batch under the same random
numbers, and at the end all that were seen are judged together as by `advise`: with further random
numbers, intervals, a Pareto front, and what cannot be told from the best.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna

from intarsia.advice.ask import AdviceError, Program

#: How many configurations are predicted before the optimiser learns from them.
BATCH = 16
_KIB = 1 << 10
_LARGE = 1e30
Configuration = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Space:
    """What may be chosen: a tuple of values for each choice; of `hosts` and widths a range.

    `hosts` are at most those of the profile. `chunk_bytes` are powers of two. `mhz` holds None for
    the frequency that the profile describes, `tiers` for the fastest that has room.
    """

    hosts: tuple[int, ...]
    placements: tuple[str, ...] = ("local", "round-robin", "collocate")
    schedulers: tuple[str, ...] = ("workqueue", "local")
    chunk_bytes: tuple[int, ...] = tuple(_KIB << power for power in range(6, 15))
    copies: tuple[int, ...] = (1,)
    storage_hosts: tuple[int | None, ...] | None = None
    stripe_widths: tuple[int, ...] | None = None
    mhz: tuple[int | None, ...] = (None,)
    tiers: tuple[str | None, ...] = (None,)

    def suggest(self, trial: optuna.Trial) -> Configuration:
        """Let an optimiser choose one; only what matters with the choices before is asked for."""
        hosts = _one_of(trial, "hosts", self.hosts)
        made: Configuration = {"hosts": hosts, "storage_hosts": self._storage(trial, hosts)}
        made["placement"] = _one_of(trial, "placement", self.placements)
        made["chunk_bytes"] = _one_of(trial, "chunk_bytes", self.chunk_bytes)
        made["copies"] = _one_of(trial, "copies", self.copies)
        made["scheduler"] = _one_of(trial, "scheduler", self.schedulers)
        if made["placement"] == "round-robin":
            stores = made["storage_hosts"] or hosts
            if self.stripe_widths is None:
                made["stripe_width"] = trial.suggest_int("stripe_width", 1, max(self.hosts))
            else:
                made["stripe_width"] = _one_of(trial, "stripe_width", self.stripe_widths)
            made["stripe_width"] = min(made["stripe_width"], stores)
        if self.mhz != (None,):
            made["frequency_mhz"] = _one_of(trial, "mhz", self.mhz)
        if self.tiers != (None,):
            made["tier"] = _one_of(trial, "tier", self.tiers)
        return made

    def _storage(self, trial: optuna.Trial, hosts: int) -> int | None:
        """Hosts that only store: a share of all, so that it means the same for each number."""
        if self.storage_hosts is not None:
            chosen: int | None = _one_of(trial, "storage_hosts", self.storage_hosts)
            return chosen
        if hosts < 2 or not trial.suggest_categorical("stores_apart", (False, True)):
            return None
        return max(1, min(hosts - 1, round(trial.suggest_float("storage_share", 0.0, 1.0) * hosts)))


def _one_of(trial: optuna.Trial, name: str, values: Sequence[Any]) -> Any:
    """Choose a value by its place, so that neighbours are near for the optimiser."""
    if len(values) == 1:
        return values[0]
    if all(isinstance(value, int) for value in values):
        return values[trial.suggest_int(name, 0, len(values) - 1)]
    return trial.suggest_categorical(name, values)


@dataclass(slots=True)
class Search:
    """Proposals and what came of them. `goals` are what is made small, of the names in `GOALS`."""

    space: Space
    goals: tuple[str, ...]
    seed: int = 1
    seen: dict[str, tuple[float, ...]] = field(default_factory=dict)
    configurations: list[Configuration] = field(default_factory=list)

    def run(
        self,
        count: int,
        predict: Callable[[list[Configuration]], list[Mapping[str, Any] | None]],
        say: Callable[[str], None],
    ) -> list[Configuration]:
        """Look at up to `count` configurations; returns those that can be, each once.

        `predict` gives the point of each configuration as `advise` prints it, or None for one
        that cannot be.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            directions=["minimize"] * len(self.goals), sampler=_sampler(self.goals, self.seed)
        )
        asked = idle = 0
        while asked < count and idle < 3:
            trials = [study.ask() for _ in range(min(BATCH, count - asked))]
            made = [self.space.suggest(trial) for trial in trials]
            fresh = {_key(one): one for one in made if _key(one) not in self.seen}
            self._learn(fresh, predict(list(fresh.values())))
            for trial, one in zip(trials, made, strict=True):
                study.tell(trial, self.seen[_key(one)])
            asked += len(fresh)
            idle = 0 if fresh else idle + 1
            say(f"{len(self.configurations)} configurations predicted, {asked} of {count} asked")
        return self.configurations

    def _learn(
        self, fresh: Mapping[str, Configuration], points: Sequence[Mapping[str, Any] | None]
    ) -> None:
        for (key, one), point in zip(fresh.items(), points, strict=True):
            if point is None:
                self.seen[key] = (_LARGE,) * len(self.goals)
            else:
                self.seen[key] = tuple(GOALS[goal](point) for goal in self.goals)
                self.configurations.append(one)


def _sampler(goals: Sequence[str], seed: int) -> optuna.samplers.BaseSampler:
    """For one goal a tree-structured Parzen estimator, for several a genetic algorithm (NSGA-II).

    The estimator knows several goals too, but takes minutes for some hundreds of proposals.
    """
    if len(goals) > 1:
        return optuna.samplers.NSGAIISampler(population_size=BATCH, seed=seed)
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=2 * BATCH)


def _cost(point: Mapping[str, Any]) -> float:
    money = point.get("money")
    return float(money["mean"] if money else point["host_seconds"])


#: How the value of a goal is read from a point of an advice.
GOALS: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "time": lambda point: float(point["seconds"]),
    "cost": _cost,
    "energy": lambda point: float((point.get("joules") or {"mean": 0.0})["mean"]),
}


def _key(one: Configuration) -> str:
    return json.dumps(one, sort_keys=True)


def goals_of(weights: Mapping[str, float] | None, has_power: bool) -> tuple[str, ...]:
    """What is searched for: the goals that weigh something, and without weights all that is known.

    >>> goals_of({"time": 1.0, "cost": 0.0, "energy": 2.0}, True)
    ('time', 'energy')
    >>> goals_of(None, False)
    ('time', 'cost')
    """
    if weights is not None:
        return tuple(name for name in GOALS if weights.get(name, 0) > 0)
    return ("time", "cost", "energy") if has_power else ("time", "cost")


@dataclass(frozen=True, slots=True)
class Predictor:
    """Asks the program for batches; `words` are the rest of its command line.

    With the `dask` address of a scheduler a batch is dealt to its workers, which need the program
    and the files under the same paths.
    """

    program: Program
    words: tuple[str, ...]
    dask: str | None = None

    def __call__(self, batch: list[Configuration]) -> list[Mapping[str, Any] | None]:
        """Return the point of each configuration, or None for one that cannot be."""
        if not batch:
            return []
        if self.dask is None:
            return self._points(batch)
        from distributed import Client

        with Client(self.dask, set_as_default=False) as client:
            workers = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
            parts = [batch[at::workers] for at in range(workers)]
            found = client.gather(client.map(self._points, [part for part in parts if part]))
        points: list[Mapping[str, Any] | None] = [None] * len(batch)
        for at, part in enumerate(found):
            points[at::workers] = part
        return points

    def _points(self, batch: list[Configuration]) -> list[Mapping[str, Any] | None]:
        """Predict a batch; what the program left out cannot be."""
        try:
            points = self.judged(batch, 1)["points"]
        except AdviceError:  # not one of them can be
            return [None] * len(batch)
        told = {_point_key(point): point for point in points}
        return [told.get(_point_key({"configuration": one})) for one in batch]

    def judged(self, configurations: Sequence[Configuration], runs: int) -> dict[str, Any]:
        """Return the advice among these."""
        return self.judged_with_code(configurations, runs)[0]

    def judged_with_code(
        self, configurations: Sequence[Configuration], runs: int
    ) -> tuple[dict[str, Any], int]:
        """Return the advice among these, and the exit code of `advise`."""
        with tempfile.TemporaryDirectory(prefix="intarsia-advice-") as scratch:
            listed = Path(scratch) / "configurations.json"
            listed.write_text(json.dumps(list(configurations)), encoding="utf-8")
            more = ["--configurations", str(listed), "--runs", str(runs), "--json"]
            return self.program.advise([*self.words, *more])


def _point_key(point: Mapping[str, Any]) -> str:
    """What tells configurations apart in an answer, whatever defaults it adds."""
    own = point["configuration"]
    names = ("hosts", "storage_hosts", "placement", "chunk_bytes", "copies", "scheduler")
    width = own.get("stripe_width") if own["placement"] == "round-robin" else None
    return json.dumps([*(own[name] for name in names), width, own.get("frequency_mhz")])
