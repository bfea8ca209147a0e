"""Import the other Python files of a template folder or a pack.

lm-eval loads the file of a ``!function`` by its path, outside any package. Each such file therefore has the same two
lines, which load this module under the file's own path. It then imports the rest through `module`:

    _spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
    _spec.loader.exec_module(load := module_from_spec(_spec))
    rows, calls = load.module(".._common.rows"), load.module(".calls")

The imported modules have a package, so ``from .._common import rows`` and ``from . import calls`` work in them. The
package's name is a hash of the paths, times and sizes of its files. Two packs in a process therefore never share
modules, nor does a pack with its replacement in the same folder.
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
    """Import a module by its name relative to the calling file, such as ``.calls`` or ``.._common.rows``.

    It loads only once until a file changes, however often lm-eval loads the calling file.
    """
    return importlib.import_module(name, f"{_make_package()}.task")


def _make_package() -> str:
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
