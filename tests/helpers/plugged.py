"""Which plug-ins of meta-eval are there: tests of the core that need one are skipped where it was deleted."""

from __future__ import annotations

import re
from pathlib import Path

from places import REPOSITORY

_FOLDER = REPOSITORY / "src" / "meta_eval" / "plugins"
_IMPORTS = re.compile(r"^(?:from|import) meta_eval\.plugins\.(\w+)", re.MULTILINE)


def is_there(name: str) -> bool:
    """Whether a plug-in is there."""
    return (_FOLDER / name).is_dir()


def need(name: str) -> None:
    """Skip the test that runs where a plug-in is not there."""
    if not is_there(name):
        import pytest  # an engine's environment has none

        pytest.skip(f"the plug-in {name} is not there")


def imports_what_is_gone(path: Path) -> bool:
    """Whether a test file imports a plug-in that is not there."""
    return not all(map(is_there, _IMPORTS.findall(path.read_text(encoding="utf-8"))))
