"""Lets numpy and scipy be imported with one thread each.

Their two OpenBLAS start a thread a core when they are loaded, and each waits busily for work that our small matrices
never give: a sixth of the CPU time of a prepare. One thread also gives the same last digits on every machine. The
variable that says so is set while they are imported and no longer, as engines have an OpenBLAS of their own.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_THREADS = "OPENBLAS_NUM_THREADS"
# The packages that load one.
_LOAD = frozenset(("numpy", "scipy.linalg", "scipy.special"))


class _Finder:
    """Finds them where others do, and changes how they are loaded."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _LOAD:
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in others if spec is not None), None)
        if spec is None or spec.loader is None or _THREADS in os.environ:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            os.environ[_THREADS] = "1"
            try:
                load(module)
            finally:
                os.environ.pop(_THREADS, None)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def import_with_one_thread() -> None:
    """From now on in this process, unless the user sets the number of threads."""
    sys.meta_path.insert(0, _Finder())
