"""How the Python files of a template folder, or of a pack, find one another.

lm-eval loads the file that a ``!function`` names by its path, and gives it no package from which to import others. Two
lines, the same in each such file, load this one under the name of the file that asks, and then it asks for the rest:

    _spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
    _spec.loader.exec_module(load := module_from_spec(_spec))
    rows, calls = load.module(".._common.rows"), load.module(".calls")

What is loaded so has a package, so that it imports by ``from .._common import rows`` and ``from . import calls``. The
package is named after the places and the state of its files: two packs in one process, or a pack that was prepared
anew where another lay, never see each other's.
"""

import hashlib
import importlib
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

_FOLDERS = {"_common": Path(__file__).resolve().parent, "task": Path(__name__).resolve().parent}


def module(name: str) -> ModuleType:
    """A module by its name as the asking file would import it: ``.calls`` beside it, ``.._common.rows``.

    It is loaded once, however often lm-eval loads the asking file, as long as no file changes.
    """
    return importlib.import_module(name, f"{_package()}.task")


def _package() -> str:
    files = [file for folder in _FOLDERS.values() for file in sorted(folder.glob("*.py"))]
    state = [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    name = f"meta_eval_{hashlib.sha256(repr(state).encode()).hexdigest()[:16]}"
    if name not in sys.modules:
        importlib.invalidate_caches()
        for part, folder in {name: None, **{f"{name}.{part}": folder for part, folder in _FOLDERS.items()}}.items():
            spec = ModuleSpec(part, None, is_package=True)
            spec.submodule_search_locations = [str(folder)] if folder else []
            sys.modules[part] = module_from_spec(spec)
    return name
