"""The rooms of the house stand in the order of the pipeline, and no import leads up."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from places import REPOSITORY

PACKAGE = REPOSITORY / "src" / "meta_eval"

# From the ground up: each may import what stands above it in this list, and itself.
ROOMS = [
    "version",
    "shown",  # how foreign text is shown
    "secrets",
    "errors",
    "notes",
    "boundary",  # files and names that are not ours, the code of templates and packs at work
    "assets",  # what the wheel carries along
    "stats",
    "catalog",  # what Meta published
    "source",  # where rows come from
    "joins",  # what originals bring to them
    "engines",  # what a pack is run with
    "config",
    "templates",
    "pack",
    "replay",
    "preflight",
    "results",  # what lm_eval wrote
    "verify",
    "records",  # any recorded run of lm-eval as an evals dataset
    "answers",  # requests out, answers in
    "judging",
    "fidelity",  # how likely each token of the recorded answers is
    "running",  # from requests to answers, on any engine, until it is decided
    "report",
    "api",
    "cli",
    "__main__",
]


def room_of(module: str) -> str:
    """``pack`` of ``meta_eval.pack.docs``."""
    return module.split(".")[1]


def imports(path: Path) -> Iterator[str]:
    """Every module of meta-eval that a file imports, wherever in it, for types only included."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("meta_eval."))
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "meta_eval":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def test_every_room_is_in_the_list() -> None:
    assert {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES} == set(ROOMS)


def test_tests_lie_in_folders_of_the_rooms_they_test() -> None:
    of_no_room = {"browser", "engine", "meta_template", "tools", "data", "golden", "helpers", "__pycache__"}
    folders = {path.name for path in (REPOSITORY / "tests").iterdir() if path.is_dir() and any(path.glob("*.*"))}
    assert folders - of_no_room <= set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_import_leads_up(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    up = [name for name in imports(path) if ROOMS.index(room_of(name)) > ROOMS.index(room)]
    assert up == []


def test_no_imports_go_in_a_circle() -> None:
    names = {path: ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in FILES}
    modules = {name.removesuffix(".__init__"): set(imports(path)) for path, name in names.items()}
    # ``from meta_eval.pack import docs`` imports the module, ``from meta_eval.pack.docs import read_docs`` its module.
    graph = {
        name: {one if one in modules else one.rpartition(".")[0] for one in imported} - {name}
        for name, imported in modules.items()
    }
    assert len(list(TopologicalSorter(graph).static_order())) >= len(modules)
