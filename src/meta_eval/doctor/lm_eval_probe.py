"""Asks the lm_eval of the printed command whether it can load and score a pack.

It runs in its own process with its own Python, without access to meta-eval. The GPU machine may not have meta-eval.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any

from meta_eval import harness
from meta_eval.base.errors import TemplateError
from meta_eval.base.inputs import open_regular, read_regular, read_table
from meta_eval.pack.doc_table import RECORDED_DOC
from meta_eval.pack.manifest import Manifest
from meta_eval.pack.punkt import INSTRUCTIONS, need_punkt
from meta_eval.pack.templates.spec import find_functions
from meta_eval.pack.templates.template_folder import read_template_yaml


@dataclass(frozen=True, slots=True)
class LmEval:
    """The ``lm_eval`` script, its Python, and whether it is on PATH."""

    script: Path
    python: str
    on_path: bool


def find_lm_eval() -> LmEval | None:
    """The script that a shell would start, or else the script beside meta-eval's own Python."""
    on_path = shutil.which("lm_eval")
    script = Path(on_path) if on_path else Path(sys.executable).with_name("lm_eval")
    return LmEval(script, _read_python(script), bool(on_path)) if script.is_file() else None


def _read_python(script: Path) -> str:
    """Read the interpreter from the script: ``#!/…/python``, or pip's form for paths that are too long."""
    try:
        with open_regular(script) as file:
            head = file.read(4096).decode("utf-8", "replace").splitlines()
    except OSError:
        head = []
    for line in head[:2]:
        words = shlex.split(line.removeprefix("#!").strip(), posix=True) if line.startswith(("#!", "'''exec'")) else []
        for word in words:
            if "python" in Path(word).name and Path(word).is_absolute():
                return word
    return str(script.with_name("python"))


def read_installed_version(python: str) -> str | None:
    """lm-eval's version in a Python environment, read from metadata."""
    if python == sys.executable or Path(python).parent == Path(sys.executable).parent:
        try:
            return importlib.metadata.version("lm_eval")
        except importlib.metadata.PackageNotFoundError:
            return None
    folders = [str(path) for path in Path(python).parent.parent.glob("lib*/python3*/*-packages")]
    return next(
        (installed.version for installed in importlib.metadata.distributions(name="lm_eval", path=folders)), None
    )


_PROBE = Path(harness.__file__).with_name("probe_script.py")
_PROBE_SECONDS = 600
_LATEX = "sympy.parsing.latex"


class Probe:
    """The probed lm_eval. It imports itself while other checks read the pack's files. See `probe_script`."""

    def __init__(self, lm_eval: LmEval, process: subprocess.Popen[bytes] | OSError, *streams: IO[bytes]) -> None:
        self.lm_eval = lm_eval
        self._process = process
        self._out, self._err = streams
        self._ended: Future[object] = Future()

    def ask(self, pack: Path, manifest: Manifest) -> None:
        """Ask it to load the pack. `check_environment` waits for the answer."""
        modules = find_imports(pack, manifest)
        question = {
            "pack": str(pack.resolve()),
            "functions": _find_functions(pack, manifest),
            "tasks": [name for name, entry in manifest.tasks.items() if entry.docs_file is not None],
            "modules": sorted(name_libraries(modules)),
            "latex": any(name.startswith(_LATEX) for name in modules),
            "punkt": _needs_punkt(pack, manifest),
        }
        if isinstance(self._process, subprocess.Popen):
            executor = ThreadPoolExecutor(1)
            text = json.dumps(question).encode()
            self._ended = executor.submit(self._process.communicate, text, timeout=_PROBE_SECONDS)
            executor.shutdown(wait=False)

    def read_answer(self) -> dict[str, Any] | str:
        """The answer, or why there is none."""
        python = self.lm_eval.python
        if isinstance(self._process, OSError):
            return f"{python} cannot be asked ({self._process})"
        try:
            self._ended.result()
            out, err = (_read(file) for file in (self._out, self._err))
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{python} cannot be asked ({error})"
        try:
            answer: dict[str, Any] = json.loads(out)
        except ValueError:
            last = err.strip().splitlines()[-1:] or [f"return code {self._process.returncode}"]
            return f"{python} cannot load lm_eval: {last[0]}"
        return answer


@contextlib.contextmanager
def start_probe() -> Iterator[Probe | None]:
    """Start the lm_eval of this machine, or yield None if there is none. It ends with the block."""
    lm_eval = find_lm_eval()
    if lm_eval is None:
        yield None
        return
    # Files instead of pipes, and its own session: leftover processes of the pack's code are stopped, and nobody waits.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                [lm_eval.python, "-B", str(_PROBE)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            yield Probe(lm_eval, error, out, err)
            return
        try:
            yield Probe(lm_eval, process, out, err)
        finally:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _find_functions(pack: Path, manifest: Manifest) -> list[tuple[str, str, str]]:
    """Every ``!function`` of the pack: its file, its module (relative to the pack) and its name."""
    functions = set()
    for name in manifest.files:
        if not name.endswith((".yaml", "_yaml")):
            continue
        try:
            tree = read_template_yaml(pack / name)
        except TemplateError:  # the file check reports it
            continue
        folder = PurePosixPath(name).parent
        functions |= {(name, (folder / ref.module_file).as_posix(), ref.function) for ref in find_functions(tree)}
    return sorted(functions)


def find_imports(pack: Path, manifest: Manifest) -> set[str]:
    """Every library that a file of the pack imports, including ``importlib.import_module("…")``."""
    pack_modules = {PurePosixPath(name).stem for name in manifest.files if name.endswith(".py")}
    modules: set[str] = set()
    for name in manifest.files:
        if name.endswith(".py"):
            with contextlib.suppress(OSError):
                modules |= _list_imports(read_regular(pack / name))
    # Scripts of a pack may import their neighbours.
    return {name for name in modules if name.partition(".")[0] not in pack_modules}


# A statement that imports, or words that look like one; and what may hide one from it.
_IMPORT = re.compile(rb"(?m:^|[;:])[ \t\f]*(?:from[ \t]++([^\s;#]*+)[ \t\f\\\n]++import\b|import[ \t\f]+([^\n;#]+))")
_HIDES_IMPORT = re.compile(rb"\r|\b(?:import|from)[ \t\f]*\\|from\f|import_module|coding[:=]")


def _may_import_library(content: bytes) -> bool:
    """Whether a file may import what `name_libraries` names: a quick look, before it is parsed."""
    names = [name for one, several in _IMPORT.findall(content) for name in (several.split(b",") if several else [one])]
    tops = {name.strip().partition(b" ")[0].partition(b".")[0].decode("latin-1") for name in names}
    return not tops - {""} <= _NO_LIBRARIES or _HIDES_IMPORT.search(content) is not None


@lru_cache(maxsize=256)
def _list_imports(content: bytes) -> frozenset[str]:
    """The modules that a file imports, if a library may be among them; none if it is not Python. Cached, because packs
    share files."""
    if not _may_import_library(content):
        return frozenset()
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested too deeply
        return frozenset()
    modules: set[str] = set()
    for node in ast.walk(tree) if b"import_module" in content else _statements(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "import_module":
            modules |= {str(arg.value) for arg in node.args[:1] if isinstance(arg, ast.Constant)}
    return frozenset(modules)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The statements of a module, without the expressions in them, which are ten times as many."""
    blocks: list[ast.AST] = [tree]
    while blocks:
        block = blocks.pop()
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            inner = getattr(block, part, ())
            yield from inner
            blocks += inner


_NO_LIBRARIES = sys.stdlib_module_names | {"meta_eval", "datasets", "pyarrow", "numpy"}


def name_libraries(modules: Iterable[str]) -> set[str]:
    """What must be importable: submodules of lm-eval, and packages otherwise."""
    libraries = set()
    for name in modules:
        top = name.partition(".")[0]
        if top == "lm_eval":
            libraries.add(name)
        elif top not in _NO_LIBRARIES:
            libraries.add(top)
    return libraries - {"lm_eval"}


def _needs_punkt(pack: Path, manifest: Manifest) -> bool:
    if manifest.includes_punkt is None:
        return False
    for entry in manifest.tasks.values():
        column = next((name for name in (INSTRUCTIONS, RECORDED_DOC) if name in entry.columns), None)
        if entry.docs_file is None or column is None:
            continue
        try:
            instructions = read_table(pack / entry.docs_file, columns=[column]).column(0).to_pylist()
            if column == RECORDED_DOC:
                instructions = [json.loads(doc).get(INSTRUCTIONS, ()) for doc in instructions]
        except Exception:  # noqa: S112 (the files check has said that it is damaged)
            continue
        if need_punkt(instructions):
            return True
    return False
