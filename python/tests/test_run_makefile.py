"""Makefiles as graphs: what make says of them, and tasks that make what make would make."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from intarsia.run.graph import Graph, GraphError
from intarsia.run.makefile import is_makefile, read_makefile

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="SKIPPED: make is missing")

COUNTS = """
TEXTS := $(wildcard *.txt)
OUT = out
all: $(OUT)/total
$(OUT)/total: $(TEXTS:%.txt=$(OUT)/%.count) | $(OUT)
\tcat $(filter %.count,$^) | awk '{n += $$1} END {print n}' > $@
$(OUT)/%.count: %.txt | $(OUT)
\t@echo counting $<
\twc -w < $< > $@
$(OUT):
\tmkdir -p $@
.PHONY: all clean
clean:
\trm -rf $(OUT)
"""


def read(directory: Path, text: str) -> Graph:
    path = directory / "Makefile"
    path.write_text(text)
    return read_makefile(path, directory, path)


def perform(graph: Graph, directory: Path) -> None:
    """Run all tasks, in the order of the graph."""
    for task in graph.tasks.values():
        subprocess.run(["/bin/sh", "-c", task.command], cwd=directory, check=True, timeout=60)
        assert all((directory / output).exists() for output in task.outputs)


def texts(directory: Path) -> None:
    (directory / "a.txt").write_text("one two\n")
    (directory / "b.txt").write_text("three\n")


def test_patterns_variables_and_functions_are_those_of_make(tmp_path: Path) -> None:
    texts(tmp_path)
    graph = read(tmp_path, COUNTS)
    assert {
        name: (task.inputs, task.outputs, task.stage) for name, task in graph.tasks.items()
    } == {
        "out_a.count": (("a.txt",), ("out/a.count",), "out/%.count"),
        "out_b.count": (("b.txt",), ("out/b.count",), "out/%.count"),
        "out_total": (("out/a.count", "out/b.count"), ("out/total",), "out/total"),
    }
    assert not (tmp_path / "out").exists(), "reading makes nothing"
    perform(graph, tmp_path)
    assert (tmp_path / "out/total").read_text() == "3\n"


def test_each_task_makes_its_own_target_alone(tmp_path: Path) -> None:
    """Although what it needs is newer than what that needs, as after a copy."""
    texts(tmp_path)
    graph = read(tmp_path, COUNTS)
    perform(graph, tmp_path)
    (tmp_path / "a.txt").touch()
    (tmp_path / "out/a.count").write_text("40\n")
    (tmp_path / "out/total").unlink()
    command = graph.tasks["out_total"].command
    subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "out/total").read_text() == "41\n"


def test_another_recipe_or_variable_is_another_command(tmp_path: Path) -> None:
    texts(tmp_path)
    first = read(tmp_path, COUNTS)
    assert read(tmp_path, COUNTS) == first
    second = read(tmp_path, COUNTS.replace("$$1", "2 * $$1"))
    differ = {name for name in first.tasks if first.tasks[name] != second.tasks[name]}
    assert differ == {"out_total"}


def test_phony_targets_groups_and_names_for_several(tmp_path: Path) -> None:
    text = """
all: both last
both: x y
x y &: source
\tcp source x; cp source y
last: both announce
\tcat x y > last
announce:
\techo now
.PHONY: all both announce
"""
    (tmp_path / "source").write_text("s\n")
    graph = read(tmp_path, text)
    (pair,) = [task for task in graph.tasks.values() if "x" in task.outputs]
    assert set(pair.outputs) == {"x", "y"}
    last = graph.tasks["last"]
    assert (set(last.inputs), last.after) == ({"x", "y"}, ("announce",))
    assert graph.tasks["announce"].outputs == ()
    perform(graph, tmp_path)
    assert (tmp_path / "last").read_text() == "s\ns\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: b\n\tcp b a\n", "No rule to make target 'b', needed by 'a'"),
        ("a:\n        touch a\n", "Makefile:2: *** missing separator"),
        ("a::\n\ttouch a\n", "line 2: target a: rules with '::' are not supported"),
        ("a:\n\t+touch b\n", "line 2: target a: lines that begin with '+', and $(MAKE)"),
        ("a:\n\t$(MAKE) --version\n\ttouch a\n", "are not supported"),
        ("", "No targets"),
    ],
)
def test_what_cannot_be_run_is_told_with_its_line(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError) as caught:
        read(tmp_path, text)
    assert problem in str(caught.value)


@pytest.mark.parametrize("name", ["Makefile", "GNUmakefile", "sub/makefile", "rules.mk"])
def test_a_makefile_is_known_by_its_name(name: str) -> None:
    assert is_makefile(Path(name))
    assert not is_makefile(Path(f"{name}.yaml"))


def test_intermediate_files_are_temporary(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("one")
    rules = ".INTERMEDIATE: middle\nlast: middle\n\tcp $< $@\nmiddle: text\n\tcp $< $@\n"
    graph = read(tmp_path, rules)
    assert {task.temp for task in graph.tasks.values()} == {("middle",), ()}
    perform(graph, tmp_path)
    assert (tmp_path / "middle").exists(), "it is not make that removes it"


def test_variables_of_single_targets_are_no_prerequisites(tmp_path: Path) -> None:
    text = """
all: WORDS = one two
all: private X := 3
all: a
	echo $(WORDS) $(X) > $(shell echo all)
a:
	echo > a
"""
    graph = read(tmp_path, text)
    assert graph.tasks["all"].inputs == ("a",)
    perform(graph, tmp_path)
    assert (tmp_path / "all").read_text() == "one two 3\n"
