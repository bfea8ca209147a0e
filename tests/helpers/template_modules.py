"""The modules of the templates, loaded by their paths as lm-eval loads them."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

from places import TEMPLATES


def load_module(path: Path) -> ModuleType:
    """A fresh module, as lm-eval makes it of a file beside a YAML."""
    spec = importlib.util.spec_from_file_location(str(path.with_suffix("")), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def template_module(file: str) -> ModuleType:
    """``squad/utils.py`` below the template folder, loaded once."""
    return load_module(TEMPLATES / file)
