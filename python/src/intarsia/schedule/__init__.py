"""Where to run a task: policies that know where its input lies, as pure functions."""

from intarsia.schedule.ahead import Copy, copies_ahead
from intarsia.schedule.cost import least_cost
from intarsia.schedule.delay import PATIENCE_S, delayed, soonest_local
from intarsia.schedule.host import Host
from intarsia.schedule.local import blind, most_local
from intarsia.schedule.matching import matched
from intarsia.schedule.queue import Start, TaskQueue
from intarsia.schedule.task import Policy, Task

__all__ = [
    "PATIENCE_S",
    "Copy",
    "Host",
    "Policy",
    "Start",
    "Task",
    "TaskQueue",
    "blind",
    "copies_ahead",
    "delayed",
    "least_cost",
    "matched",
    "most_local",
    "soonest_local",
]
