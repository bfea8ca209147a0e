"""meta-eval: lm-eval task packs from Meta's published Llama evals datasets.

``from meta_eval import prepare, verify, run, fidelity, export, grade, report, compare, Config, Manifest``. Each is
imported on first use.
"""

from __future__ import annotations

from meta_eval.version import __version__

# Not typing's own: until `meta_eval.__main__` runs, Ctrl-C during an import gives a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meta_eval.api import compare, export, fidelity, grade, prepare, report, run
    from meta_eval.pack.config import Config
    from meta_eval.pack.manifest import Manifest
    from meta_eval.pack.verify import verify

__all__ = [
    "Config", "Manifest", "__version__", "compare", "export", "fidelity", "grade", "prepare", "report", "run", "verify",
]  # fmt: skip

_HOMES = {
    **dict.fromkeys(("compare", "export", "fidelity", "grade", "prepare", "report", "run"), "meta_eval.api"),
    "verify": "meta_eval.pack.verify",
    "Config": "meta_eval.pack.config",
    "Manifest": "meta_eval.pack.manifest",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
