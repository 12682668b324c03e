"""`balance`: which load should move where, and why."""

from __future__ import annotations

import argparse
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intarsia.characterise import commands as shared
from intarsia.characterise.balance.plan import Plan, Wishes, make_plan
from intarsia.characterise.balance.pool import PlacedLoad, Pool
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import Load
from intarsia.characterise.units import size_of

_POOL = """\
a pool:
  [stores.fast]
  model = "fast.json"            what `fit` wrote, beside this file
  capacity = "2 TB"
  [stores.slow]
  model = "slow.json"
  capacity = "8 TB"
  [loads.shop]
  store = "slow"                 where it is
  size = "120 GB"                what has to be copied
  random = 100                   per cent
  read = 70                      per cent
  bytes = "8k"                   of a request
  outstanding = 2
  pinned = false                 true: never moved
"""


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "balance",
        "advise which load should move to which store",
        "Read stores and loads from a pool file and print moves in order, each with its reason, "
        "its "
        "cost and how sure its gain is. Nothing is moved: `migrate` does that.",
        "  python -m intarsia.characterise balance pool.toml\n"
        "  python -m intarsia.characterise balance pool.toml --moves 2 --confidence 95% --json\n\n"
        + _POOL,
    )
    parser.add_argument("pool", type=Path, metavar="POOL.toml", help="stores and loads")
    parser.add_argument("--moves", type=shared.positive, default=5, help="at most so many (5)")
    parser.add_argument(
        "--confidence",
        type=shared.confidence,
        default=0.8,
        help="a move must help with this probability; lower is bolder (0.8)",
    )
    parser.add_argument("--bandwidth", default="100 MB", help="of copies, a second (100 MB)")
    parser.add_argument(
        "--horizon", type=float, default=8.0, metavar="HOURS", help="to pay back within (8)"
    )
    parser.add_argument("--alpha", type=float, default=5.0, help="weight of the slowest store (5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Advise."""
    pool, models = read_pool(chosen.pool)
    wishes = Wishes(
        chosen.moves,
        chosen.confidence,
        size_of(chosen.bandwidth, "--bandwidth"),
        chosen.horizon * 3600,
        alpha=chosen.alpha,
    )
    plan = make_plan(pool, models, wishes)
    if chosen.json:
        shared.print_json(asdict(plan))
    else:
        _print(plan)


def read_pool(path: Path) -> tuple[Pool, dict[str, Any]]:
    """Read a pool file and the models that it names.

    Raises `CharacteriseError` that names the file and the field.
    """
    try:
        table = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise CharacteriseError(f"{path}: {error}") from None
    stores, loads = table.get("stores", {}), table.get("loads", {})
    if len(stores) < 2 or not loads:
        raise CharacteriseError(f"{path}: give [stores.NAME] twice at least, and [loads.NAME]")
    try:
        models = {
            name: shared.read_model(path.parent / str(_field(one, "model", f"stores.{name}")))
            for name, one in stores.items()
        }
        names = tuple(stores)
        room = tuple(
            size_of(_field(one, "capacity", f"stores.{name}"), f"stores.{name}.capacity")
            for name, one in stores.items()
        )
        placed = tuple(_load(name, one, names) for name, one in loads.items())
        return Pool(names, room, placed), models
    except CharacteriseError as error:
        raise CharacteriseError(f"{path}: {error}") from None


_FIELDS = {"store", "size", "random", "read", "bytes", "outstanding", "pinned"}


def _load(name: str, table: dict[str, Any], stores: tuple[str, ...]) -> PlacedLoad:
    place = f"loads.{name}"
    if unknown := set(table) - _FIELDS:
        raise CharacteriseError(
            f"{place}: unknown field {min(unknown)}; {', '.join(sorted(_FIELDS))}"
        )
    store = _field(table, "store", place)
    if store not in stores:
        raise CharacteriseError(f"{place}.store: no store {store}; there are {', '.join(stores)}")
    try:
        load = Load(
            float(_field(table, "random", place)),
            float(_field(table, "read", place)),
            size_of(_field(table, "bytes", place), "bytes"),
            float(_field(table, "outstanding", place)),
        )
    except (TypeError, ValueError) as error:
        raise CharacteriseError(f"{place}: {error}") from None
    size = size_of(_field(table, "size", place), f"{place}.size")
    return PlacedLoad(name, load, size, stores.index(store), bool(table.get("pinned", False)))


def _field(table: dict[str, Any], name: str, place: str) -> Any:
    if name not in table:
        raise CharacteriseError(f"{place}: {name} is missing")
    return table[name]


def _print(plan: Plan) -> None:
    out = shared.console()
    if not plan.moves:
        out.print(
            "No move helps as much and as surely as asked for; the loads stay where they are."
        )
    for number, move in enumerate(plan.moves, 1):
        out.print(f"{number}. {move.sentence}", soft_wrap=True)
    if plan.moves:
        rows = [
            [name, f"{before:.3g}", f"{plan.after_ms[name]:.3g}"]
            for name, before in plan.before_ms.items()
        ]
        shared.print_table(["store", "now, ms", "then, ms"], rows)
    for reason in plan.declined:
        out.print(f"not {reason}", style="dim", soft_wrap=True)
