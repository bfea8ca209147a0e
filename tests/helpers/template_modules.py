"""The modules of the templates, loaded by their paths as lm-eval loads them."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

from places import TEMPLATES


def load_module(path: Path, name: str | None = None) -> ModuleType:
    """A fresh module, as lm-eval makes it of a file beside a YAML."""
    spec = importlib.util.spec_from_file_location(name or str(path.with_suffix("")), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def template_module(file: str) -> ModuleType:
    """``squad/utils.py`` below the template folder, loaded once."""
    return load_module(TEMPLATES / file)


def inner_module(path: Path) -> ModuleType:
    """A module that no YAML names, as the one that a YAML names beside it loads it."""
    loader = load_module(path.parents[1] / "_common" / "load.py", str(path))
    module: ModuleType = loader.module(f".{path.stem}")
    return module
