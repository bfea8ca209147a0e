"""The packages stand in the order of the pipeline, and no import leads up."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from places import REPOSITORY

PACKAGE = REPOSITORY / "src" / "meta_eval"

# From the ground up: each may import what stands above it in this list, and itself.
PACKAGES = [
    "version",
    "messages",  # what is said to the user: errors, notes, foreign text made visible
    "errors",  # the errors, for programs that import them
    "thresholds",  # levels, margins and tolerances
    "verb_options",  # what each verb is asked for
    "boundary",  # files and names that are not ours, the code of templates and packs at work
    "assets",  # what the wheel carries along
    "stats",
    "catalog",  # what Meta published
    "source",  # where rows come from
    "joins",  # what originals bring to them
    "backends",  # what a pack is run with
    "config",
    "templates",
    "pack",
    "results",  # what lm_eval wrote
    "verification",
    "records",  # any recorded run of lm-eval as an evals dataset
    "answers",  # requests out, answers in
    "judging",
    "token_fidelity",  # how likely each token of the recorded answers is
    "running",  # from requests to answers, on any engine, until it is decided
    "doctor",  # checks of the pack, of this machine and of the engine
    "reports",
    "api",
    "cli",
    "pytest_plugin",
    "__main__",
]


def package_of(module: str) -> str:
    """``pack`` of ``meta_eval.plugins.meta.task_docs``."""
    return module.split(".")[1]


def imports(path: Path) -> Iterator[str]:
    """Every module of meta-eval that a file imports, wherever in it, for types only included."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("meta_eval."))
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "meta_eval":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


# Who opens files without ``base/inputs.py``, and why none of them can hang or fill memory.
OPENERS = {
    "assets/__init__.py": "files that the wheel carries",
    "assets/pack_docs.py": "stands alone in a pack",
    "base/process_guard.py": "/proc",
    "base/inputs.py": "the door itself",
    "base/staging.py": "its own lock, never waited for, and what it has written, to sync it",
    "plugins/meta/catalog/__init__.py": "files that the wheel carries",
    "cli/init.py": "files that the wheel carries",
    "report/html.py": "files that the wheel carries",
    "ask/journal.py": "its own journal, to append to",
    "plugins/engines/vllm/vllm_server.py": "an address, and no file",
    "plugins/engines/vllm/vllm_client.py": "the log that it appends to",
    "ask/watchdog.py": "/proc",
}
OPENING = {
    "FileIO", "OSFile", "ParquetFile", "copy2", "copyfile", "copytree", "fromfile", "loadtxt", "memmap", "memory_map",
    "open", "open_code", "read_bytes", "read_parquet", "read_table", "read_text",
}  # fmt: skip
# What is no file: text in memory, nothing, or what `meta_eval.pack.source.dataset.DataFile` opens through the door.
IN_MEMORY = ("io.BytesIO(", "BytesIO(", "os.devnull", "completions.", "file.open()")


# Who uses hashlib itself: the helpers, what stands alone in a pack or an export, and digests that grow piece by piece.
HASHERS = {
    "assets/pack_docs.py", "base/hashing.py",
    "harness/sample_files.py", "ask/journal.py",
}  # fmt: skip


def opens(path: Path) -> Iterator[str]:
    """Every call that opens a file to read it, but those of functions of meta-eval that are imported by name."""
    tree = ast.parse(path.read_bytes())
    named = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "meta_eval" in (node.module or "")]
    ours = {alias.name for node in named for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            text = ast.unparse(node)
            called = ast.unparse(node.func)
            constants = [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
            writes = any(mode[:1] in ("w", "a", "x") for mode in constants[:1])
            opening = called.rpartition(".")[2] in OPENING or called in ("np.load", "numpy.load")
            if opening and called not in ours and not writes and not any(word in text for word in IN_MEMORY):
                yield f"line {node.lineno}: {text}"


def parameters(node: ast.AST) -> set[str]:
    """The parameters of a function; of a class those of ``__init__``, or its fields."""
    body = node.body if isinstance(node, ast.ClassDef) else [node]
    init = next(
        (
            part
            for part in body
            if isinstance(part, ast.FunctionDef) and part.name in ("__init__", getattr(node, "name", ""))
        ),
        None,
    )
    if init is None:
        return {
            part.target.id for part in body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        }
    return {part.arg for part in ast.walk(init.args) if isinstance(part, ast.arg)}


def unknown_arguments(path: Path) -> Iterator[str]:
    """What docstrings describe as an argument and no function takes."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and "Args:\n" in (text := ast.get_docstring(node) or ""):
            described = re.split(r"\n\n(?! )", text.partition("Args:\n")[2])[0]
            names = re.findall(r"^ {4}\*{0,2}(\w[\w*, ]*):", described, re.MULTILINE)
            listed = {name.strip(" *") for line in names for name in line.split(",")}
            yield from (f"{node.name}: {name}" for name in sorted(listed - parameters(node)))


def test_docstrings_describe_arguments_that_exist() -> None:
    unknown = {path.relative_to(PACKAGE).as_posix(): list(unknown_arguments(path)) for path in FILES}
    assert {name: names for name, names in unknown.items() if names} == {}


def test_files_are_opened_through_one_door() -> None:
    result = {path.relative_to(PACKAGE).as_posix(): list(opens(path)) for path in FILES}
    assert {name: calls for name, calls in result.items() if calls and name not in OPENERS} == {}


# Who talks to a network. Of an endpoint only `ask/transport.py` reads anything, and hides the API key in it.
NETWORK = {
    "pack/source/hub.py": "the hub's library, whose words `hub_faults` hides credentials in",
    "pack/source/hub_faults.py": "errors of the hub's library",
    "plugins/chat/chat_stream.py": "what the door reads a stream with",
    "ask/transport.py": "the door itself",
    "plugins/engines/vllm/vllm_server.py": "waits for a server of its own, and reads nothing",
}
# An import of a library that talks to a network, or a look behind the door.
NETWORKING = re.compile(
    r"^ *(?:import|from) (?:aiohttp|http|httpx|requests|socket|urllib3|websockets|urllib\.request)\b.*"
    r"|(?<!self)\._body\b|\bparse_body\b",
    re.MULTILINE,
)


def test_what_endpoints_say_is_read_through_one_door() -> None:
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in FILES}
    found = {name: NETWORKING.findall(text) for name, text in texts.items() if name not in NETWORK}
    assert {name: uses for name, uses in found.items() if uses} == {}


def test_classes_of_other_packages_are_loaded_in_one_module() -> None:
    users = {path.relative_to(PACKAGE).as_posix() for path in FILES if "entry_points" in path.read_text("utf-8")}
    assert users == {"base/extensions.py"}


def test_digests_are_made_in_one_module() -> None:
    importers = {path.relative_to(PACKAGE).as_posix() for path in FILES if "import hashlib" in path.read_text()}
    assert importers == HASHERS


def test_every_package_is_in_the_list() -> None:
    assert {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES} == set(PACKAGES)


def test_tests_lie_in_folders_of_the_packages_they_test() -> None:
    of_no_package = {"browser", "engine", "meta_template", "tools", "data", "golden", "helpers", "__pycache__"}
    folders = {path.name for path in (REPOSITORY / "tests").iterdir() if path.is_dir() and any(path.glob("*.*"))}
    assert folders - of_no_package <= set(PACKAGES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_import_leads_up(path: Path) -> None:
    package = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    up = [name for name in imports(path) if PACKAGES.index(package_of(name)) > PACKAGES.index(package)]
    assert up == []


def test_no_two_modules_share_a_name() -> None:
    # A module of ``cli`` is called like its verb. ``errors`` is `meta_eval.base.errors` for other programs, and
    # what several options objects have in common may lie in an ``options`` of each package.
    elsewhere = {"cli", "assets", "sample"}
    ours = [path for path in FILES if path.stem != "__init__" and not elsewhere & set(path.parts)]
    modules = [path.stem for path in ours]
    assert {name for name, times in Counter(modules).items() if times > 1} <= {"errors", "options"}


def test_no_two_public_classes_share_a_name() -> None:
    ours = [path for path in FILES if not {"assets", "sample"} & set(path.parts)]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in ours]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, times in names.items() if times > 1 and not name.startswith("_")} == set()


def test_no_imports_go_in_a_circle() -> None:
    names = {path: ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in FILES}
    modules = {name.removesuffix(".__init__"): set(imports(path)) for path, name in names.items()}
    # ``from meta_eval.pack import task_docs as docs`` imports the module, ``from meta_eval.plugins.meta.task_docs import read_docs`` its module.
    graph = {
        name: {module if module in modules else module.rpartition(".")[0] for module in imported} - {name}
        for name, imported in modules.items()
    }
    assert len(list(TopologicalSorter(graph).static_order())) >= len(modules)


def test_files_that_the_architecture_names_are_there() -> None:
    page = (REPOSITORY / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./-]+(?:/|\.py|\.json|\.yaml))`", page))
    assert len(named) > 40
    assert {file for file in named if not (PACKAGE / file).exists() and not (REPOSITORY / file).exists()} == set()
