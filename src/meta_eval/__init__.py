"""meta-eval: packs of lm-eval tasks from recorded evaluations, and whether a model still reaches them.

``from meta_eval import prepare, verify, run, export, grade, report, compare, Config, Manifest``. Each is imported on
first use. The verb of a plug-in is a function of its name, too, if it has one.
"""

from __future__ import annotations

from meta_eval.base.version import __version__

# Not typing's own: until `meta_eval.__main__` runs, Ctrl-C during an import gives a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meta_eval.api import compare, export, grade, prepare, report, run
    from meta_eval.pack.config import Config
    from meta_eval.pack.manifest import Manifest
    from meta_eval.pack.verify import verify

__all__ = ["Config", "Manifest", "__version__", "compare", "export", "grade", "prepare", "report", "run", "verify"]

_HOMES = {
    **dict.fromkeys(("compare", "export", "grade", "prepare", "report", "run"), "meta_eval.api"),
    "verify": "meta_eval.pack.verify",
    "Config": "meta_eval.pack.config",
    "Manifest": "meta_eval.pack.manifest",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if (call := _find_call(name)) is not None:
        return call
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _find_call(name: str) -> Any:
    """The function of a plug-in's verb; None if there is none. Python asks for every submodule first, too."""
    from importlib.util import find_spec

    if name.startswith("_") or find_spec(f"{__name__}.{name}") is not None:
        return None
    from meta_eval.cli.verb import find_verb

    verb = find_verb(name, ())
    return None if verb is None or not verb.call else verb.load_call()


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
