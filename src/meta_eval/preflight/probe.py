# mypy: disable-error-code="import-untyped"
"""Run by the lm_eval's own Python: can it import and load what a pack holds? One JSON object in, one out.

A script that imports nothing of meta-eval and makes sure that nobody else can: the pack must do without.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any


class _Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> None:  # noqa: ARG002
        if name == "meta_eval" or name.startswith("meta_eval."):
            raise ModuleNotFoundError("No module named 'meta_eval'", name=name)


def _error_of(step: Callable[[], object]) -> str | None:
    """What goes wrong, in one line; None when nothing does."""
    try:
        step()
    except BaseException as error:  # code of a pack may end the program too
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


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    pack = Path(asked["pack"])
    if importlib.util.find_spec("nltk"):
        import nltk

        nltk.download = lambda *_, **__: False  # lm-eval's IFEval module would try, and wait for the network
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(pack), include_defaults=False)
    payload: dict[str, Any] = {
        "functions": {
            f"{file}: {name}": _error_of(partial(_function, pack, module, name))
            for file, module, name in asked["functions"]
        },
        "tasks": {name: _error_of(partial(_first_doc, manager, name)) for name in asked["tasks"]},
        "modules": {name: _error_of(partial(importlib.import_module, name)) for name in asked["modules"]},
    }
    if asked["latex"]:
        payload["latex"] = _error_of(_latex)
    if asked["punkt"]:
        payload["punkt"] = _error_of(partial(_punkt, pack))
    return payload


def main() -> None:
    # A started script has its own folder in front of sys.path, which lm_eval would not have.
    sys.path.pop(0)
    sys.meta_path.insert(0, _Refuse())
    asked = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints must not look like the answer
    json.dump(answer(asked), out)
    out.close()


if __name__ == "__main__":
    main()
