"""One run from the command line: from the workflow's file to the exit code."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intarsia.learn.lessons import Lesson
from intarsia.learn.measured import measured_in
from intarsia.learn.observed import LearnError, Observed, Role
from intarsia.learn.tell import HEADS, in_order, row_of
from intarsia.locate import NODE_ENDED, host_of, is_in, store_of
from intarsia.run.advised import (
    COMPARED,
    check_workflow,
    follow,
    foretell,
    hints_for,
    keep_comparison,
    read_advice,
    tell,
)
from intarsia.run.ahead import Budget
from intarsia.run.attempts import History
from intarsia.run.choices import Choices
from intarsia.run.engine import Engine
from intarsia.run.events import ClusterError, StopAsked, StoreBack, StoreLeft
from intarsia.run.experience import leave_record, lessons_for, runs_before
from intarsia.run.glide import stage_in, stage_out, store_for_run
from intarsia.run.graph import Graph, GraphError
from intarsia.run.hints import Cluster, Derivation
from intarsia.run.journal import Journal, JournalBusyError, JournalError, made_before
from intarsia.run.lineage import Made
from intarsia.run.makefile import is_makefile
from intarsia.run.plan import (
    DERIVED_HEADS,
    PLAN_HEADS,
    Plan,
    chosen_hints,
    derived_rows,
    plan_of,
    planned,
    read_workflow,
    refuse_outputs,
    require_inputs,
    rows_of,
)
from intarsia.run.protect import HEADS as COPY_HEADS
from intarsia.run.protect import Risk, choices_of, row_of_told, told_of, with_copies
from intarsia.run.refining import check_profile, refine_by_run
from intarsia.run.replay import dealt, missing_inputs
from intarsia.run.settings import Settings
from intarsia.run.streams import print_whole
from intarsia.run.summary import HELP, lines_of, summary_of
from intarsia.run.tags import Inheritance, Tags, new_log
from intarsia.run.undeclared import Undeclared
from intarsia.run.view import Terminal
from intarsia.run.watch import Sight, Watch
from intarsia.store import StoreError

if TYPE_CHECKING:
    from intarsia.run.cluster import RunCrew

_FAILURE, _USAGE, _BUSY = 1, 2, 4
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _StoppedEarly(BaseException):
    """A signal came before the first task or after the last one; its argument is the number."""


class StoreLostError(RuntimeError):
    """The store went away under a run; the text says what that did."""


def carry_out(choices: Choices) -> int:
    """Run a workflow; returns the exit code, and says on standard error what went wrong."""
    try:
        with _handling(_stop_early):
            return _Session(choices).run()
    except _StoppedEarly as stop:
        return 128 + int(stop.args[0])
    except GraphError as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return _USAGE
    except LearnError as error:
        print(f"error: {error}", file=sys.stderr)
        return _USAGE
    except JournalBusyError as error:
        print(f"error: {error}", file=sys.stderr)
        return _BUSY
    except StoreLostError as error:
        print(f"error: {error}\n{HELP}", file=sys.stderr)
        return _FAILURE
    except (ClusterError, JournalError, StoreError) as error:
        print(f"error: {error}", file=sys.stderr)
        return _FAILURE
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.errno in NODE_ENDED and error.filename is not None:
            print("help: the node of its store has ended; `intarsia up` begins it", file=sys.stderr)
        return _FAILURE


def _stop_early(number: int, _: object) -> None:
    raise _StoppedEarly(number)


@contextlib.contextmanager
def _handling(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Have `handler` take the signals that stop a run."""
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, one in before.items():
            signal.signal(number, one)


class _Session:
    """One run, step by step."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self._directory = choices.root
        name = choices.workflow.name.split(".")[0] or "workflow"
        self._run_dir = (choices.run_dir or self._directory / f".run-{name}").absolute()
        self._view = Terminal(quiet=choices.quiet)
        self._advised = None if choices.advice is None else read_advice(choices.advice)
        if choices.refine is not None:
            check_profile(choices.refine, self._advised)
        self._prediction: dict[str, Any] | None = None
        self._graph = Graph(name, {}, {}, {}, {}, {}, {})
        self._is_replay = False
        self._runs_before: list[Observed] = []
        self._lessons: dict[Role, Lesson] = {}
        self._protection: list[dict[str, Any]] = []
        self._derivation: Derivation | None = None
        # What a Makefile says depends on what is in the directory.
        self._reads_late = is_makefile(choices.workflow) and bool(choices.up or choices.stage_in)
        if not self._reads_late or choices.dry_run:
            self._read()

    def _read(self) -> None:
        choices = self._choices
        self._graph, self._is_replay = read_workflow(
            choices.workflow, choices.replay, self._directory, self._run_dir
        )

    def run(self) -> int:
        """Run it, with what is asked for around it; returns the exit code."""
        self._follow_advice()
        glide = self._choices.glide
        if self._choices.dry_run and not self._directory.is_dir() and glide is not None:
            return self._show(Plan({}, frozenset(self._graph.tasks)))
        if glide is None or self._choices.dry_run:
            self._choices = replace(self._choices, hosts=self._working(self._choices.hosts))
            return self._go_through()
        with store_for_run(glide, self._view.say, self._view.warn) as store:
            self._choices = replace(
                self._choices,
                hosts=self._working(tuple(store.addresses) or self._choices.hosts),
                address=self._choices.address or store.address,
            )
            self._directory.mkdir(parents=True, exist_ok=True)
            code = self._go_through()
            store.is_spent = code == 0 and self._choices.stage_out is not None
            return code

    def _follow_advice(self) -> None:
        """Choose what is recommended, and what is so without a recommendation."""
        if self._advised is not None:
            if not self._reads_late:
                check_workflow(self._advised, self._choices.workflow, self._graph)
            self._prediction = foretell(self._advised, self._view.say)
            self._choices = follow(self._advised, self._choices, self._view.say)
        self._choices = replace(
            self._choices,
            schedule=self._choices.schedule or "local",
            hints=self._choices.hints or "learned",
        )

    def _working(self, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """The hosts that run tasks."""
        return hosts if self._advised is None else hosts[: self._advised.app_hosts]

    def _go_through(self) -> int:
        choices = self._choices
        if not self._directory.is_dir():
            raise GraphError(
                str(choices.workflow), [f"the directory {self._directory} is not there"]
            )
        choices.told.require_places()
        if choices.stage_in and not choices.dry_run:
            stage_in(choices.stage_in, self._directory, self._view.say)
        if self._reads_late and not choices.dry_run:
            self._read()
            if self._advised is not None:
                check_workflow(self._advised, choices.workflow, self._graph)
        kept = (choices.workflow.absolute(), self._run_dir)
        refuse_outputs(str(choices.workflow), self._graph, self._directory, kept)
        warnings = list(self._graph.warnings)
        if not self._is_replay:
            warnings += require_inputs(str(choices.workflow), self._graph, self._directory)
        for warning in warnings:
            self._view.say(f"warning: {warning}")
        if choices.hints == "learned":
            self._runs_before = runs_before(self._run_dir, choices.learn, self._view.say)
        if choices.dry_run:
            made = {} if choices.fresh else made_before(self._run_dir / "journal")
            return self._show(self._plan(made))
        with Journal(self._run_dir / "journal", fresh=choices.fresh) as journal:
            if is_makefile(choices.workflow):
                shutil.copyfile(choices.workflow, self._run_dir / choices.workflow.name)
            history = self._perform(journal)
            code = self._conclude(history, journal)
        if choices.stage_out is not None and (history.is_well or not history.lost_store):
            stage_out(self._results(history), self._directory, choices.stage_out, self._view.say)
        return code

    def _results(self, history: History) -> list[str]:
        """What was made for the user and is whole, and the logs of tasks that failed."""
        done = {one.task for one in history.done} | set(history.reused)
        files = [
            file
            for file, maker in self._graph.producer.items()
            if self._graph.is_result(file) and maker in done and not Path(file).is_absolute()
        ]
        logs = [Path(one.log) for one in history.attempts if one.task in history.failed]
        below = [log for log in logs if log.is_relative_to(self._directory) and log.exists()]
        return files + [str(log.relative_to(self._directory)) for log in below]

    def _plan(self, made: Mapping[str, Made]) -> Plan:
        return plan_of(self._graph, self._directory, made, probes=self._choices.remakes)

    def _show(self, plan: Plan) -> int:
        hints = self._hints(len(self._choices.hosts) or 1)
        rows = rows_of(self._graph, plan, hints)
        derived = [] if self._derivation is None else derived_rows(self._derivation, self._lessons)
        if self._choices.json:
            told = planned(rows, self._lessons, self._protection, derived)
            print_whole(json.dumps(told, indent=2))
            return 0
        title = f"{self._graph.name}: {len(plan.to_run)} of {len(rows)} tasks would run"
        self._view.table(title, PLAN_HEADS, rows)
        if self._lessons:
            lessons = map(row_of, in_order(self._lessons.values()))
            self._view.table("hints that earlier runs teach", HEADS, lessons)
        if derived:
            self._view.table("hints from the graph", DERIVED_HEADS, derived)
        if self._protection:
            rows = list(map(row_of_told, self._protection))
            self._view.table("copies, or made again with --lineage", COPY_HEADS, rows)
        return 0

    def _hints(self, hosts: int) -> dict[str, dict[str, str]]:
        """Return the hints of files, and learn those first that earlier runs teach."""
        choices = self._choices
        self._lessons = lessons_for(self._runs_before, self._directory, hosts, choices.link)
        cluster = Cluster.linked(hosts, choices.link, by_affinity=choices.by_affinity)
        derivation = Derivation(self._graph, cluster, inherited=Inheritance(self._directory))
        if hosts > 1 and choices.hints in ("learned", "derived"):
            self._derivation = derivation
        hints = chosen_hints(choices.hints or "learned", derivation, self._lessons)
        if self._advised is not None:
            hints = hints_for(self._advised, self._graph, hosts) | hints
        if hosts < 2 or not choices.remakes or choices.hints != "learned":
            return hints
        risk = Risk(choices.link, choices.mtbf_h)
        kept = choices_of(self._graph, measured_in(self._runs_before), risk)
        self._protection = told_of(self._graph, kept)
        return with_copies(hints, kept)

    def _perform(self, journal: Journal) -> History:
        missing = missing_inputs(self._graph, self._directory) if self._is_replay else []
        if not missing:
            plan = self._plan(journal.made)
            if not plan.to_run:
                return self._nothing_to_do()
        store = store_of(self._directory)
        with self._crew(store) as crew:
            hints = self._hints(len(crew.hosts))
            self._make_inputs(crew, missing, hints)
            plan = self._plan(journal.made)
            if self._choices.live is not None:
                self._view.serve(self._choices.live)
            with (
                _handling(lambda number, _: crew.tell(StopAsked(number))),
                contextlib.closing(self._view),
                self._watching(crew, store),
            ):
                return self._go(crew, plan, journal, hints, store)

    @contextlib.contextmanager
    def _crew(self, store: str | None) -> Iterator[RunCrew]:
        """Begin the workers; raises StoreLostError where the store went meanwhile, ClusterError."""
        from intarsia.run.cluster import crew_of  # Dask takes a second

        logs, say = self._run_dir / "logs", self._view.say
        try:
            with crew_of(self._choices.place, self._directory, store, logs, say) as crew:
                yield crew
        except (ClusterError, OSError) as error:
            if store is None or is_in(self._directory, store):
                raise
            raise StoreLostError(str(error)) from None

    @contextlib.contextmanager
    def _watching(self, crew: RunCrew, store: str | None) -> Iterator[None]:
        """Tell the crew when the store goes from this host, where that matters."""
        if store is None:
            yield
            return
        keeps_journal = store_of(self._run_dir) == store

        def tell(sight: Sight) -> None:
            if not sight.problem:
                crew.tell(StoreBack())
            elif keeps_journal or sight.is_absent:
                crew.tell(StoreLeft(sight.problem, sight.age_s))

        with contextlib.closing(Watch(str(self._directory), store, tell)):
            yield

    def _go(
        self,
        crew: RunCrew,
        plan: Plan,
        journal: Journal,
        hints: dict[str, dict[str, str]],
        store: str | None,
    ) -> History:
        choices = self._choices
        is_store = store is not None
        settings = Settings(
            self._directory,
            self._run_dir,
            choices.policy,
            choices.retries,
            choices.timeout_s,
            choices.keeps_going,
            choices.remakes,
            choices.budget if is_store and choices.schedule == "wow" else Budget(),
            choices.link,
            choices.in_order or choices.schedule == "workqueue",
            choices.by_affinity,
            hints if is_store else {},
            self._tags(hints) if is_store else None,
            store,
        )
        history = self._history(plan)
        if is_store:
            history.hints, history.lessons = hints, self._lessons
            history.protection = self._protection
        undeclared = Undeclared(self._graph, self._directory, self._run_dir)
        engine = Engine(
            self._graph,
            plan.lineage,
            set(plan.to_run),
            journal,
            crew,
            settings,
            history,
            self._view,
        )
        engine.run()
        if not history.lost_store:
            history.warnings += undeclared.found({one.task for one in history.attempts})
        return history

    def _tags(self, hints: dict[str, dict[str, str]]) -> Tags | None:
        """Return what derives hints while the run goes on, and tells a log why."""
        if self._derivation is None:
            return None
        say = new_log(self._run_dir / "hints.log")
        return Tags(self._derivation, hints, self._directory, taught=self._lessons, say=say)

    def _history(self, plan: Plan) -> History:
        reused = tuple(name for name in self._graph.tasks if name not in plan.to_run)
        return History(
            self._graph, self._directory, self._run_dir, self._choices.schedule or "", reused=reused
        )

    def _nothing_to_do(self) -> History:
        history = self._history(Plan({}, frozenset()))
        history.began_s = history.ended_s = time.time()
        return history

    def _make_inputs(
        self, crew: RunCrew, missing: list[str], hints: dict[str, dict[str, str]]
    ) -> None:
        if not missing:
            return
        size_bytes = sum(self._graph.size_bytes[file] for file in missing)
        self._view.say(f"making inputs: {len(missing)}, {size_bytes / 1e6:.1f} MB")
        parts = {
            host: {str(self._directory / file): self._graph.size_bytes[file] for file in files}
            for host, files in dealt(self._graph, missing, crew.hosts).items()
        }
        is_store = host_of(self._directory) is not None
        by_path = {str(self._directory / file): hints[file] for file in missing if file in hints}
        crew.make(parts, by_path if is_store else {})

    def _compare(self, history: History) -> None:
        """Hold what the run took against what was foretold; a part of a run tells nothing."""
        if self._advised is None or self._prediction is None or not history.done:
            return
        if history.reused or not history.is_well:
            self._view.say("not all tasks ran in this run; it is not compared with the prediction")
            return
        tell(
            keep_comparison(self._run_dir, self._advised, self._prediction, history),
            self._view.say,
        )
        if self._choices.refine is None:
            where = self._run_dir / COMPARED
            self._view.say(f"kept in {where}; `intarsia refine` corrects the profile by it")

    def _conclude(self, history: History, journal: Journal) -> int:
        choices = self._choices
        try:
            # Else a directory would be made below the mount, and be in its way.
            if not history.lost_store and self._run_dir.is_dir():
                leave_record(self._run_dir, history, journal.past)
        except OSError as error:
            where = error.filename or self._run_dir
            self._view.warn(f"warning: the next run learns nothing: {where}: {error.strerror}")
        problems = list(choices.told.write(history, journal.past, self._view.say))
        if choices.json:
            try:
                print_whole(json.dumps(summary_of(history), indent=2))
            except OSError as error:
                problems.append(f"{error.filename}: {error.strerror}")
        tell = self._view.say if history.is_well else self._view.warn
        for line in lines_of(history):
            tell(line)
        if journal.is_gone:
            where = f"the run directory {self._run_dir} was removed meanwhile"
            self._view.warn(f"warning: {where}: the next run begins anew")
        for problem in problems:
            self._view.warn(f"error: {problem}")
        self._compare(history)
        if choices.refine and history.is_well and history.done and not history.reused:
            refine_by_run(choices.refine, self._run_dir, self._view.say)
        if history.stopped_by in signal.Signals.__members__:
            return 128 + signal.Signals[history.stopped_by]
        return 0 if history.is_well and not problems else _FAILURE
