"""Modules of the templates, loaded by path as lm-eval does."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

from places import TEMPLATES


def load_module(path: Path, name: str | None = None) -> ModuleType:
    """Load a new module as lm-eval does for a file next to a YAML."""
    spec = importlib.util.spec_from_file_location(name or str(path.with_suffix("")), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def template_module(file: str) -> ModuleType:
    """Load a file of the template folder once, such as ``squad/utils.py``."""
    return load_module(TEMPLATES / file)


def inner_module(path: Path) -> ModuleType:
    """Load a module that no YAML names, as the YAML's module next to it does."""
    loader = load_module(path.parents[1] / "_common" / "load.py", str(path))
    module: ModuleType = loader.module(f".{path.stem}")
    return module
