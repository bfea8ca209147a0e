"""The modules of the templates, loaded by their paths as lm-eval loads them."""

from __future__ import annotations

import functools
import importlib.util
from types import ModuleType

from places import TEMPLATES


@functools.cache
def template_module(file: str) -> ModuleType:
    """``squad/utils.py`` below the template folder."""
    path = TEMPLATES / file
    spec = importlib.util.spec_from_file_location(str(path.with_suffix("")), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
