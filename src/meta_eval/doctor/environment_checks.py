"""Checks the lm_eval of the printed command: its version, and whether it loads and scores the pack."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from meta_eval.base.display import plural
from meta_eval.doctor.check import Finding, failed, not_checked, passed
from meta_eval.doctor.lm_eval_probe import (
    LmEval,
    Probe,
    find_imports,
    find_lm_eval,
    name_libraries,
    read_installed_version,
)
from meta_eval.pack.manifest import Manifest

# How to install libraries that scoring imports. For others the import name is the package.
_BROUGHT_BY = {
    **dict.fromkeys(("math_verify", "sympy", "latex2sympy2_extended", "antlr4"), "lm-eval[math]"),
    **dict.fromkeys(("langdetect", "nltk", "immutabledict", "lm_eval.tasks.ifeval.utils"), "lm-eval[ifeval]"),
    "rouge_score": "lm-eval",
}
_ANTLR = "antlr4-python3-runtime==4.11.*"


# An extra of lm-eval, as a requirement names it.
_EXTRA = re.compile(r"lm[-_]eval\[([\w,]+)\]")


def describe_install(pack: Path, manifest: Manifest) -> str:
    """The ``pip install`` of the Python that runs the printed command: lm-eval in the range of the pack, with its
    extras for the engine and for the graders, and what else these need."""
    modules = sorted(name_libraries(find_imports(pack, manifest)))
    needed = [
        *manifest.backend.list_installs(manifest.run_settings),
        *(_BROUGHT_BY[name] for name in modules if name in _BROUGHT_BY),
        *_name_packages([name for name in modules if name not in _BROUGHT_BY and not name.startswith("lm_eval.")]),
    ]
    extras = dict.fromkeys(extra for word in needed if (match := _EXTRA.match(word)) for extra in match[1].split(","))
    others = dict.fromkeys(word for word in needed if word != "lm-eval" and not _EXTRA.match(word))
    lm_eval = f"lm-eval[{','.join(extras)}]" if extras else "lm-eval"
    supported = f">={manifest.lm_eval.minimum},<{manifest.lm_eval.below}"
    return " ".join(["pip install", f'"{lm_eval}{supported}"', *map(shlex.quote, others)])


def _name_packages(modules: list[str]) -> Iterator[str]:
    """The packages of modules, as they are installed here, but those that the installed lm-eval needs always.

    A module that is not installed has its name in the form of packages.
    """
    if not modules:
        return
    try:
        required = importlib.metadata.requires("lm_eval") or ()
    except importlib.metadata.PackageNotFoundError:
        required = ()
    always = {_normalise(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in required if "extra ==" not in line}
    others = [name for name in modules if _normalise(name) not in always]
    # It takes 0.1 s.
    installed = importlib.metadata.packages_distributions() if others else {}
    for name in others:
        package = next(iter(installed.get(name, ())), name.replace("_", "-"))
        if _normalise(package) not in always:
            yield package


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def check_version(manifest: Manifest) -> Finding:
    """Check that a pack supports the installed lm_eval."""
    supported = f">={manifest.lm_eval.minimum},<{manifest.lm_eval.below}"
    lm_eval = find_lm_eval()
    if lm_eval is None:
        return not_checked(
            "lm_eval", f'none on PATH; where the command runs: pip install "lm-eval[math,ifeval]{supported}"'
        )
    version = read_installed_version(lm_eval.python)
    if version is None:
        return not_checked("lm_eval", f"{lm_eval.script} does not tell its version; supported: {supported}")
    if not _supports(manifest.lm_eval.minimum, manifest.lm_eval.below, version):
        return failed(
            "lm_eval",
            f"{lm_eval.script} is {version}, and this pack runs on {supported}",
            f'Run: {shlex.quote(lm_eval.python)} -m pip install "lm-eval[math,ifeval]{supported}"',
        )
    aside = "" if lm_eval.on_path else "; not on PATH here, so name it by its path or activate its environment"
    return passed("lm_eval", f"{version} ({lm_eval.script}){aside}")


def _supports(minimum: str, below: str, version: str) -> bool:
    """Whether a version is in a range. A pre-release precedes its release and is not below it; invalid versions are
    outside."""
    from packaging.version import InvalidVersion, Version

    try:
        found = Version(version)
    except InvalidVersion:
        return False
    return Version(minimum) <= found and Version(found.base_version) < Version(below)


def check_environment(manifest: Manifest, probe: Probe | None) -> Iterator[Finding]:
    """Check version, functions, first docs and requirements of scoring, from the answer of a probe."""
    yield check_version(manifest)
    if probe is None:
        for name in ("functions", "first docs", "scoring"):
            yield not_checked(name, "there is no lm_eval on this machine to ask")
        return
    answer = probe.read_answer()
    if isinstance(answer, str):
        yield failed("scoring", answer, f"Run: {shlex.quote(probe.lm_eval.python)} -c 'import lm_eval.tasks'")
        return
    functions, tasks = answer["functions"], answer["tasks"]
    yield from _check_each("functions", functions, f"{len(functions)} import without meta-eval", _describe_import_hint)
    yield from _check_each(
        "first docs", tasks, f"loaded for {plural(len(tasks), 'task')}",
        lambda error: "Do as it says" if "prepare" in error else "Run `meta-eval prepare` again",
    )  # fmt: skip
    for name in (name for name in manifest.tasks if name not in tasks):
        yield not_checked("first docs", f"{name}: its rows stay on the hub (bundle: false)")
    yield from _check_scoring(probe.lm_eval, answer)


def _check_scoring(lm_eval: LmEval, answer: dict[str, Any]) -> Iterator[Finding]:
    """Check the libraries and data that scoring needs. A failure names the command that installs them."""
    python = shlex.quote(lm_eval.python)
    pip = f"Run: {python} -m pip install"
    for name, error in answer["modules"].items():
        brought = _BROUGHT_BY.get(name, name.partition(".")[0].replace("_", "-"))
        yield _check_import(f"scoring: {name}", error, "imports", f'{pip} "{brought}"')
    if "latex" in answer:
        yield _check_import("scoring: antlr", answer["latex"], "sympy reads LaTeX with it", f'{pip} "{_ANTLR}"')
    if "punkt" in answer:
        yield _check_import(
            "scoring: punkt_tab",
            answer["punkt"] and "IFEval cannot split sentences without it",
            "is on this machine",
            f"Run: {python} -m nltk.downloader punkt_tab (without a network: prepare on a machine that has it, and the "
            "pack brings it along)",
        )


def _check_import(name: str, error: str | None, good: str, hint: str) -> Finding:
    return passed(name, good) if error is None else failed(name, error, hint)


def _check_each(name: str, errors: dict[str, str | None], good: str, hint: Callable[[str], str]) -> Iterator[Finding]:
    wrong = {what: error for what, error in errors.items() if error is not None}
    for what, error in wrong.items():
        yield failed(name, f"{what}: {error}", hint(error))
    if not wrong:
        yield passed(name, good)


def _describe_import_hint(error: str) -> str:
    if "No module named 'meta_eval" in error:
        return "A pack runs without meta-eval: copy what the template needs of it into its folder"
    return "Install what is missing for the lm_eval above, or fix the template and run `meta-eval prepare` again"
