"""Lets lm-eval's own IFEval use the Punkt model of this pack, if it has one. prepare copies this file beside its YAML.

lm-eval's checkers look for the model on import, and download it if it is missing. lm-eval reads a task's YAML before
its included files, so this module is imported first. It loads the docs with ``pack_docs``, beside it.
"""

import importlib.util
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()


def load(**settings: Any) -> Any:
    """Load the docs with ``pack_docs.load``."""
    path = HERE.with_name("pack_docs.py")
    spec = importlib.util.spec_from_file_location("pack_docs", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(**settings)


def _find_model() -> None:
    """Put the pack's ``nltk_data``, if present, first on nltk's path."""
    pack = next((folder for folder in HERE.parents if (folder / "manifest.json").is_file()), None)
    if pack is None or not (pack / "nltk_data").is_dir():
        return
    import nltk

    nltk.data.path.insert(0, str(pack / "nltk_data"))


_find_model()
