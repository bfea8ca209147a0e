"""Doors of the house: who opens files, makes digests, talks to a network. Who imports whom is in ``.importlinter``."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import REPOSITORY

from meta_eval import sockets

PACKAGE = REPOSITORY / "src" / "meta_eval"

FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


# Who opens files without ``base/inputs.py``, and why none of them can hang or fill memory.
OPENERS = {
    "base/assets/__init__.py": "files that the wheel carries",
    "base/assets/pack_docs.py": "stands alone in a pack",
    "base/worker.py": "/proc",
    "base/inputs.py": "the door itself",
    "base/ownership.py": "its own lock, never waited for, and what it has written, to sync it",
    "plugins/boards/boards.py": "files that the wheel carries",
    "plugins/meta/catalog/__init__.py": "files that the wheel carries",
    "cli/init.py": "files that the wheel carries",
    "reports/html.py": "files that the wheel carries",
    "ask/journal.py": "its own journal, to append to",
    "ask/served.py": "an address, and no file",
    "plugins/inspect_ai/inspect_files.py": "members of a zip that was opened through the door, each up to a limit",
    "plugins/engines/output.py": "the log that it appends to",
    "ask/watchdog.py": "/proc",
}
OPENING = {
    "FileIO", "OSFile", "ParquetFile", "copy2", "copyfile", "copytree", "fromfile", "loadtxt", "memmap", "memory_map",
    "open", "open_code", "read_bytes", "read_parquet", "read_table", "read_text",
}  # fmt: skip
# What is no file: text in memory, nothing, or what `meta_eval.pack.hub.DataFile` opens through the door.
IN_MEMORY = ("io.BytesIO(", "BytesIO(", "os.devnull", "completions.", "file.open()")


# Who uses hashlib itself: the helpers, what stands alone in a pack or an export, and digests that grow piece by piece.
HASHERS = {
    "base/assets/pack_docs.py", "base/hashing.py",
    "harness/sample_files.py", "ask/journal.py",
}  # fmt: skip


# A call of one of these names. To read a file as text takes a tenth of the time of parsing it and of all its nodes.
CALLING = re.compile(rb"\b(?:%s)\b\s*\(" % "|".join(sorted({*OPENING, "load"})).encode())


@functools.cache
@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement below a node, and not the parts of one, which are most nodes."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        parts = getattr(node, name, ())
        for part in parts if isinstance(parts, list) else ():  # of a lambda or an `a if b else c` it is one expression
            yield part
            yield from statements(part)


def opens(path: Path) -> Iterator[str]:
    """Every call that opens a file to read it, but those of functions of meta-eval that are imported by name."""
    if not CALLING.search(path.read_bytes()):
        return
    tree = parse(path)
    named = [
        node for node in statements(tree) if isinstance(node, ast.ImportFrom) and "meta_eval" in (node.module or "")
    ]
    ours = {alias.name for node in named for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in {
            *OPENING,
            "load",
        }:
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
    if b"Args:\n" not in path.read_bytes():
        return
    for node in statements(parse(path)):
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
    "pack/hub.py": "the hub's library, in whose words it hides credentials",
    "plugins/chat/chat_stream.py": "what the door reads a stream with",
    "ask/transport.py": "the door itself",
    "ask/served.py": "waits for a server of its own, and reads nothing",
    "plugins/stand_in/stand_in_server.py": "is a server, of this machine alone",
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
    assert users == {"base/extensions.py", "pytest_plugin.py"}  # the second reads those of meta-eval alone


def test_digests_are_made_in_one_module() -> None:
    importers = {path.relative_to(PACKAGE).as_posix() for path in FILES if "import hashlib" in path.read_text()}
    assert importers == HASHERS


def test_files_that_the_architecture_names_are_there() -> None:
    page = (REPOSITORY / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./-]+(?:/|\.py|\.json|\.yaml))`", page))
    assert len(named) > 30
    missing = {file for file in named if not (PACKAGE / file).exists() and not (REPOSITORY / file).exists()}
    # A plug-in may be deleted.
    assert {
        file for file in missing if not file.startswith("plugins/") or PACKAGE.joinpath(*file.split("/")[:2]).is_dir()
    } == set()


def test_what_examples_import_is_in_the_list_of_sockets() -> None:
    """And nothing else of meta-eval: a package of a user has no other door."""
    named = [
        (node.module, alias.name)
        for path in (REPOSITORY / "examples").glob("*.py")
        for node in statements(parse(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("meta_eval")
        for alias in node.names
    ]
    assert {module for module, _ in named} == {"meta_eval.sockets"}
    assert {name for _, name in named} - set(dir(sockets)) == set()


def test_the_list_of_sockets_is_short_and_type_checkers_read_the_same_names() -> None:
    names = [name for listed in sockets.MODULES.values() for name in listed.split()]
    assert dir(sockets) == sorted(set(names)) and len(names) == len(set(names)) <= 90
    stub = (PACKAGE / "sockets.pyi").read_text(encoding="utf-8")
    told = re.findall(r"^from meta_eval\.(\S+) import (\w+) as \2$", stub, re.MULTILINE)
    assert sorted(told) == sorted(
        (module, name) for module, listed in sockets.MODULES.items() for name in listed.split()
    )
    assert [name for name in dir(sockets) if getattr(sockets, name, None) is None] == []


def test_no_room_is_imported_before_a_name_of_the_sockets_is_used() -> None:
    code = "import sys; before = set(sys.modules); import meta_eval.sockets; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    rooms = {name.split(".")[1] for name in done.stdout.split() if name.startswith("meta_eval.")}
    assert rooms == {"sockets", "base"}  # the package has its version from the second


def imports(path: Path) -> Iterator[str]:
    """The modules that a module imports names from, also in functions and for type checkers."""
    for node in statements(parse(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("meta_eval"):
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


# Names of plug-ins that are words of the core, too.
WORDS = {
    "tasks": "a key of the configuration", "chat": "a kind of requests", "recorded": "of a record, as answers are",
    "load": "what is done with a task",
}  # fmt: skip
# What looks like a name of a plug-in, and is none.
OTHERS = {
    ("judge/token_table.py", "fidelity"): "the folder of token tables",
    ("pack/backends/server.py", "local-completions"): "the client of lm-eval in the printed command",
    ("pack/backends/server.py", "huggingface"): "its argument tokenizer_backend",
    ("harness/provenance.py", "local-completions"): "an example of a name that lm-eval writes",
}


def names_of_plugins(group: str) -> list[str]:
    """What our plug-ins register in a group of entry points."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = project["entry-points"].get(f"meta_eval.{group}", {})
    return [name for name, value in points.items() if value.startswith("meta_eval.plugins.")]


def test_the_core_names_no_verb_and_no_backend_of_a_plugin() -> None:
    verbs, backends = names_of_plugins("verbs"), names_of_plugins("backends")
    names = "|".join(map(re.escape, sorted({*verbs, *backends} - set(WORDS), key=len, reverse=True)))
    naming = re.compile(rf"meta-eval ({'|'.join(verbs)})\b|[\"'`/]({names})[\"'`/]" if names else "(?!)")
    core = [path for path in FILES if not path.is_relative_to(PACKAGE / "plugins")]
    found = {
        (path.relative_to(PACKAGE).as_posix(), next(filter(None, match.groups())))
        for path in core
        for match in naming.finditer(path.read_text(encoding="utf-8"))
    }
    assert found - set(OTHERS) == set()


# Figures of the house, which may only fall. Who raises one says why in the commit; who lowers one writes its new value.
LIMITS = {
    "statements of the core": 25070, "statements of src": 39636, "names of sockets": 90, "circles of imports": 0,
    "classes of a graded doc": 4,
}  # fmt: skip
# Classes that hold what was answered to a doc, or its verdict.
GRADED = {
    "Answer", "BaselineRunAnswer", "DetailsRow", "DocResult", "Judged", "LoggedAnswer", "Recorded", "RecordedDoc",
    "RunText", "ShownSample", "TextAnswer",
}  # fmt: skip


def name_module(path: Path) -> str:
    """The dotted name of a module."""
    return ".".join(("meta_eval", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def list_circles(imports: dict[str, set[str]]) -> set[frozenset[str]]:
    """Groups of modules each of which imports each, by others."""

    def reach(module: str) -> set[str]:
        seen: set[str] = set()
        waiting = [module]
        while waiting:
            fresh = imports[waiting.pop()] - seen
            seen |= fresh
            waiting += fresh
        return seen

    reached = {module: reach(module) for module in imports}
    return {
        frozenset(other for other in seen if module in reached[other])
        for module, seen in reached.items()
        if module in seen
    }


@functools.cache
def measure_house() -> dict[str, int]:
    """The figures of `LIMITS`. Imports count wherever they stand, in a function or for types alone."""
    every = [PACKAGE / "__init__.py", *FILES]
    modules = {name_module(path): path for path in every}
    counts, imports, classes = {}, {}, set()
    for name, path in modules.items():
        found = [node for node in statements(parse(path)) if isinstance(node, ast.stmt)]
        counts[path] = sum(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in found)
        classes |= {node.name for node in found if isinstance(node, ast.ClassDef)}
        named = {alias.name for node in found if isinstance(node, ast.Import) for alias in node.names}
        for node in found:
            if isinstance(node, ast.ImportFrom) and node.module:
                named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        imports[name] = {other for other in named & modules.keys() if modules[other].name != "__init__.py"} - {name}
    return {
        "statements of the core": sum(
            count for path, count in counts.items() if PACKAGE / "plugins" not in path.parents
        ),
        "statements of src": sum(counts.values()),
        "names of sockets": len(dir(sockets)),
        "circles of imports": len(list_circles(imports)),
        "classes of a graded doc": len(classes & GRADED),
    }


@pytest.mark.parametrize("figure", LIMITS)
def test_the_house_does_not_grow(figure: str) -> None:
    assert measure_house()[figure] <= LIMITS[figure], f"{figure}: see LIMITS in {Path(__file__).name}"


def test_circles_of_imports_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": {"d"}, "f": {"a"}, "g": set()}
    assert list_circles(imports) == {frozenset("abc"), frozenset("de")}
