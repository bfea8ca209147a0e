"""The lm_eval that the printed command would start: its version, and whether it can load and score this pack.

Asked of that lm_eval's own Python, in a process of its own, with meta-eval out of reach: the machine with the GPU need
not have it.
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from meta_eval.errors import TemplateError
from meta_eval.pack.manifest import Manifest
from meta_eval.preflight.check import Check, failed, not_checked, passed
from meta_eval.templates.folder import read_yaml
from meta_eval.templates.spec import functions_in

_PROBE = Path(__file__).with_name("probe.py")
_PROBE_SECONDS = 600

# What brings a library that scoring imports; others are called as they are imported.
_BROUGHT_BY = {
    **dict.fromkeys(("math_verify", "sympy", "latex2sympy2_extended"), "lm-eval[math]"),
    **dict.fromkeys(("langdetect", "nltk", "immutabledict", "lm_eval.tasks.ifeval.utils"), "lm-eval[ifeval]"),
}
_ANTLR = "antlr4-python3-runtime==4.11.*"
_LATEX = "sympy.parsing.latex"

# The instructions of IFEval whose checkers split text with nltk's punkt_tab, which nltk does not bring along.
NEEDS_PUNKT = frozenset(("change_case:capital_word_frequency", "length_constraints:number_sentences"))


@dataclass(frozen=True, slots=True)
class LmEval:
    """The ``lm_eval`` script, the Python that runs it, and whether it is on PATH."""

    script: Path
    python: str
    on_path: bool


def find_lm_eval() -> LmEval | None:
    """The script that a shell would start; else the one beside meta-eval's own Python."""
    found = shutil.which("lm_eval")
    script = Path(found) if found else Path(sys.executable).with_name("lm_eval")
    return LmEval(script, _python_of(script), bool(found)) if script.is_file() else None


def _python_of(script: Path) -> str:
    """From the script's first lines: ``#!/…/python``, or pip's way around a path that is too long for that."""
    try:
        head = script.read_bytes()[:4096].decode("utf-8", "replace").splitlines()
    except OSError:
        head = []
    for line in head[:2]:
        words = shlex.split(line.removeprefix("#!").strip(), posix=True) if line.startswith(("#!", "'''exec'")) else []
        for word in words:
            if "python" in Path(word).name and Path(word).is_absolute():
                return word
    return str(script.with_name("python"))


def installed_version(python: str) -> str | None:
    """lm-eval's version in the environment of a Python, read from its metadata without starting it."""
    if python == sys.executable or Path(python).parent == Path(sys.executable).parent:
        try:
            return importlib.metadata.version("lm_eval")
        except importlib.metadata.PackageNotFoundError:
            return None
    folders = [str(path) for path in Path(python).parent.parent.glob("lib*/python3*/*-packages")]
    return next((found.version for found in importlib.metadata.distributions(name="lm_eval", path=folders)), None)


def check_version(manifest: Manifest) -> Check:
    """The lm_eval that would run is one that a pack supports."""
    wanted = f">={manifest.lm_eval.minimum},<{manifest.lm_eval.below}"
    lm_eval = find_lm_eval()
    if lm_eval is None:
        return not_checked(
            "lm_eval", f'none on PATH; where the command runs: pip install "lm-eval[math,ifeval]{wanted}"'
        )
    version = installed_version(lm_eval.python)
    if version is None:
        return not_checked("lm_eval", f"{lm_eval.script} does not tell its version; supported: {wanted}")
    if not _supports(wanted, version):
        return failed(
            "lm_eval",
            f"{lm_eval.script} is {version}, and this pack runs on {wanted}",
            f'Run: {shlex.quote(lm_eval.python)} -m pip install "lm-eval[math,ifeval]{wanted}"',
        )
    aside = "" if lm_eval.on_path else "; not on PATH here, so name it by its path or activate its environment"
    return passed("lm_eval", f"{version} ({lm_eval.script}){aside}")


def _supports(wanted: str, version: str) -> bool:
    """A version of the range; a release candidate comes before its release, and what is no version is outside."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version) in SpecifierSet(wanted, prereleases=True)
    except InvalidVersion:
        return False


def check_environment(pack: Path, manifest: Manifest) -> Iterator[Check]:
    """Version, functions, first docs, and what scoring needs."""
    yield check_version(manifest)
    lm_eval = find_lm_eval()
    if lm_eval is None:
        for name in ("functions", "first docs", "scoring"):
            yield not_checked(name, "there is no lm_eval on this machine to ask")
        return
    modules = _imported(pack, manifest)
    functions = _functions(pack, manifest)
    tasks = [name for name, entry in manifest.tasks.items() if entry.docs_file is not None]
    asked = {
        "pack": str(pack.resolve()),
        "functions": functions,
        "tasks": tasks,
        "modules": sorted(_libraries(modules)),
        "latex": any(name.startswith(_LATEX) for name in modules),
        "punkt": _needs_punkt(pack, manifest),
    }
    answer = _ask(lm_eval.python, asked)
    if isinstance(answer, str):
        yield failed("scoring", answer, f"Run: {shlex.quote(lm_eval.python)} -c 'import lm_eval.tasks'")
        return
    yield from _checks("functions", answer["functions"], f"{len(functions)} import without meta-eval", _hint_import)
    yield from _checks("first docs", answer["tasks"], f"{len(tasks)} tasks load theirs", _hint_load)
    for name in (name for name in manifest.tasks if name not in tasks):
        yield not_checked("first docs", f"{name}: its rows stay on the hub (bundle: false)")
    yield from _scoring(lm_eval, answer)


def _scoring(lm_eval: LmEval, answer: dict[str, Any]) -> Iterator[Check]:
    """The libraries and data that scoring needs, each with the command that brings it."""
    python = shlex.quote(lm_eval.python)
    pip = f"Run: {python} -m pip install"
    for name, error in answer["modules"].items():
        brought = _BROUGHT_BY.get(name, name.partition(".")[0].replace("_", "-"))
        yield _one(f"scoring: {name}", error, "imports", f'{pip} "{brought}"')
    if "latex" in answer:
        yield _one("scoring: antlr", answer["latex"], "sympy reads LaTeX with it", f'{pip} "{_ANTLR}"')
    if "punkt" in answer:
        yield _one(
            "scoring: punkt_tab",
            answer["punkt"] and "IFEval cannot split sentences without it",
            "is on this machine",
            f"Run: {python} -m nltk.downloader punkt_tab (without a network: prepare on a machine that has it, and the "
            "pack brings it along)",
        )


def _one(name: str, error: str | None, good: str, hint: str) -> Check:
    return passed(name, good) if error is None else failed(name, error, hint)


def _checks(name: str, errors: dict[str, str | None], good: str, hint: Callable[[str], str]) -> Iterator[Check]:
    wrong = {what: error for what, error in errors.items() if error is not None}
    for what, error in wrong.items():
        yield failed(name, f"{what}: {error}", hint(error))
    if not wrong:
        yield passed(name, good)


def _hint_import(error: str) -> str:
    if "No module named 'meta_eval" in error:
        return "A pack runs without meta-eval: copy what the template needs of it into its folder"
    return "Install what is missing for the lm_eval above, or fix the template and run `meta-eval prepare` again"


def _hint_load(error: str) -> str:
    return "Run `meta-eval prepare` again" if "prepare" not in error else "Do as it says"


def _ask(python: str, asked: dict[str, Any]) -> dict[str, Any] | str:
    """The probe's answer, or what is wrong with asking it."""
    try:
        done = subprocess.run(
            [python, "-B", str(_PROBE)],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{python} cannot be asked ({error})"
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or [f"return code {done.returncode}"]
        return f"{python} cannot load lm_eval: {last[0]}"
    return answer


def _functions(pack: Path, manifest: Manifest) -> list[tuple[str, str, str]]:
    """Every ``!function`` of the pack: the file that names it, its module (relative to the pack) and its name."""
    found = set()
    for name in manifest.files:
        if not name.endswith((".yaml", "_yaml")):
            continue
        try:
            tree = read_yaml(pack / name)
        except TemplateError:  # the files check has said so
            continue
        folder = PurePosixPath(name).parent
        found |= {(name, (folder / ref.module_file).as_posix(), ref.function) for ref in functions_in(tree)}
    return sorted(found)


def _imported(pack: Path, manifest: Manifest) -> set[str]:
    """Every module that a file of the pack imports anywhere, ``importlib.import_module("…")`` included."""
    own = {PurePosixPath(name).stem for name in manifest.files if name.endswith(".py")}
    found: set[str] = set()
    for name in manifest.files:
        if not name.endswith(".py"):
            continue
        try:
            tree = ast.parse((pack / name).read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module)
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "import_module":
                found |= {str(arg.value) for arg in node.args[:1] if isinstance(arg, ast.Constant)}
    # A script of a pack may import its neighbours; a pack brings those itself.
    return {name for name in found if name.partition(".")[0] not in own}


def _libraries(modules: Iterable[str]) -> set[str]:
    """What must be importable: of lm-eval its submodules, of others the package."""
    found = set()
    for name in modules:
        top = name.partition(".")[0]
        if top == "lm_eval":
            found.add(name)
        elif top not in sys.stdlib_module_names and top not in ("meta_eval", "datasets", "pyarrow", "numpy"):
            found.add(top)
    return found - {"lm_eval"}


def _needs_punkt(pack: Path, manifest: Manifest) -> bool:
    import pyarrow.parquet as pq

    for entry in manifest.tasks.values():
        if entry.docs_file is None or "instruction_id_list" not in entry.columns:
            continue
        try:
            table = pq.read_table(pack / entry.docs_file, columns=["instruction_id_list"])
        except Exception:  # noqa: S112 (the files check has said that it is damaged)
            continue
        if any(not NEEDS_PUNKT.isdisjoint(ids) for ids in table.column(0).to_pylist()):
            return True
    return False


def check_engine(manifest: Manifest) -> Iterator[Check]:
    """Whether the engine could start here; often another machine than that which prepares, so nothing of it fails."""
    engine = manifest.engine
    lm_eval = find_lm_eval()
    if lm_eval is not None:
        ask = f"import importlib.util as u; print(u.find_spec({engine.imports!r}) is not None)"
        if _output_of([lm_eval.python, "-c", ask]).strip() == "True":
            yield passed("engine", f"{engine.imports} is installed")
        else:
            pip = f"{shlex.quote(lm_eval.python)} -m pip install {engine.install}"
            yield not_checked("engine", f"no {engine.imports} on this machine; where the command runs: {pip}")
    needed = engine.gpus(manifest.run)
    found = sum(line.startswith("GPU ") for line in _output_of(["nvidia-smi", "-L"]).splitlines())
    if found >= needed:
        yield passed("GPUs", f"{found} here, {needed} asked for")
    else:
        yield not_checked("GPUs", f"{found or 'none'} on this machine, {needed} asked for")


def _output_of(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
