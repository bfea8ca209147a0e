"""Lets lm-eval's own IFEval score with the Punkt model that this pack may bring; prepare puts a copy beside its YAML.

lm-eval's checkers look for the model when they are imported, and download it where there is none. A task's YAML is read
before what it includes, so that this module is imported first. The docs are those of ``pack_docs``, beside it.
"""

import importlib.util
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()


def load(**settings: Any) -> Any:
    """The docs, as ``pack_docs.load`` reads them."""
    path = HERE.with_name("pack_docs.py")
    spec = importlib.util.spec_from_file_location("pack_docs", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(**settings)


def _find_model() -> None:
    """Put the pack's ``nltk_data`` first on nltk's path, where the pack brings it."""
    pack = next((folder for folder in HERE.parents if (folder / "manifest.json").is_file()), None)
    if pack is None or not (pack / "nltk_data").is_dir():
        return
    import nltk

    nltk.data.path.insert(0, str(pack / "nltk_data"))


_find_model()
