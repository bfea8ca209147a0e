"""The modules of the templates, loaded by their paths as lm-eval loads them."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

from conftest import TEMPLATES


@functools.cache
def template_module(file: str) -> ModuleType:
    """``squad/utils.py`` below the template folder."""
    path = TEMPLATES / file
    return _loaded(str(path.with_suffix("")), path)


def inner_module(path: Path) -> ModuleType:
    """A module that no YAML names, as the one that a YAML names beside it loads it."""
    load = _loaded(str(path), path.parents[1] / "_common" / "load.py")
    module: ModuleType = load.module(f".{path.stem}")
    return module


def _loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
