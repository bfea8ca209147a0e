"""meta-eval: lm-eval task packs from Meta's published Llama evals datasets.

``from meta_eval import prepare, verify, run, fidelity, export, grade, report, compare, Config, Manifest``; importing
this loads none of them yet.
"""

from __future__ import annotations

import sys
from types import ModuleType

from meta_eval.version import __version__

# typing's own is not asked: until `meta_eval.__main__` has begun, each import is time in which Ctrl-C is a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meta_eval.api import compare, export, fidelity, grade, report, run
    from meta_eval.config import Config
    from meta_eval.pack.manifest import Manifest
    from meta_eval.records.prepare import prepare
    from meta_eval.verification import verify

__all__ = [
    "Config", "Manifest", "__version__", "compare", "export", "fidelity", "grade", "prepare", "report", "run", "verify",
]  # fmt: skip

_HOMES = {
    **dict.fromkeys(("compare", "export", "fidelity", "grade", "report", "run"), "meta_eval.api"),
    "prepare": "meta_eval.records.prepare",
    "verify": "meta_eval.verification",
    "Config": "meta_eval.config",
    "Manifest": "meta_eval.pack.manifest",
}


class _Package(ModuleType):
    """``report`` is a package too, and importing it would put it in the place of the function of its name: here the
    function stays. ``from meta_eval.report import …`` reaches into the package as ever.
    """

    def __getattr__(self, name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_HOMES})


sys.modules[__name__].__class__ = _Package
