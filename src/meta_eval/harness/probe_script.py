# mypy: disable-error-code="import-untyped"
"""Runs in lm_eval's own Python: can it import and load the pack? JSON object in, JSON object out.

The script imports nothing of meta-eval and prevents others from doing so, because the pack must work without it. It
imports lm_eval before it reads the request, to save time. Without a request it ends.
"""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any


class _Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> None:  # noqa: ARG002
        if name == "meta_eval" or name.startswith("meta_eval."):
            raise ModuleNotFoundError("No module named 'meta_eval'", name=name)


class _NoDownloads(importlib.abc.MetaPathFinder):
    """Import nltk without its download function, which lm-eval's IFEval module calls.

    nltk is imported only on demand, because it imports scipy and scikit-learn.
    """

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:  # noqa: ARG002
        if name != "nltk":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def without_download(module: Any) -> None:
                execute(module)
                module.download = lambda *_, **__: False

            loader.exec_module = without_download
        return spec


def _ignore_bytecode(folder: Path) -> None:
    """Compile the modules of a folder from their sources: what lies in a ``__pycache__`` there may be of anyone."""
    root = f"{os.path.realpath(folder)}{os.sep}"
    loading: Any = SourceFileLoader
    stat = loading.path_stats

    def path_stats(loader: SourceFileLoader, path: str) -> Any:
        if os.path.realpath(path).startswith(root):
            raise OSError  # with which a loader says that it knows no time of the source
        return stat(loader, path)

    loading.path_stats = path_stats


def _error_of(step: Callable[[], object]) -> str | None:
    """The error of a step in one line, or None."""
    try:
        step()
    except BaseException as error:  # a pack's code may also exit
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


def _function(pack: Path, module_file: str, name: str) -> None:
    spec = importlib.util.spec_from_file_location("pack_module", pack / module_file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {module_file}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise AttributeError(f"{module_file} has no function {name}")


def _first_doc(manager: Any, name: str) -> None:
    loaded = manager.load([name])["tasks"] if hasattr(manager, "load") else manager.load_task_or_group([name])
    task = loaded[name]
    docs = task.eval_docs
    if not len(docs):
        raise ValueError("there is no doc")
    doc = docs[0]
    task.doc_to_text(doc)
    task.doc_to_target(doc)
    if task.OUTPUT_TYPE == "multiple_choice":
        task.doc_to_choice(doc)


def _latex() -> None:
    from sympy.parsing.latex import parse_latex

    parse_latex(r"\frac{1}{2}")


def _punkt(pack: Path) -> None:
    import nltk

    nltk.data.path.insert(0, str(pack / "nltk_data"))
    nltk.data.find("tokenizers/punkt_tab/english/")


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    from lm_eval.tasks import TaskManager

    pack = Path(question["pack"])
    _ignore_bytecode(pack)
    manager = TaskManager(include_path=str(pack), include_defaults=False)
    payload: dict[str, Any] = {
        "functions": {
            f"{file}: {name}": _error_of(partial(_function, pack, module, name))
            for file, module, name in question["functions"]
        },
        "tasks": {name: _error_of(partial(_first_doc, manager, name)) for name in question["tasks"]},
        "modules": {name: _error_of(partial(importlib.import_module, name)) for name in question["modules"]},
    }
    if question["latex"]:
        payload["latex"] = _error_of(_latex)
    if question["punkt"]:
        payload["punkt"] = _error_of(partial(_punkt, pack))
    return payload


def main() -> None:
    # A script's own folder comes first on sys.path. lm_eval would not have it there.
    sys.path.pop(0)
    sys.meta_path[:0] = [_Refuse(), _NoDownloads()]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # output of libraries must not mix with the answer
    gc.disable()  # the process lives only for seconds
    importlib.import_module("lm_eval.tasks")
    process, question = os.getpid(), sys.stdin.read()
    answered = answer(json.loads(question)) if question else None
    if question and os.getpid() == process:  # not a process that the pack's code forked
        json.dump(answered, out)
        out.close()
    os._exit(0)  # end leftover threads too


if __name__ == "__main__":
    main()
